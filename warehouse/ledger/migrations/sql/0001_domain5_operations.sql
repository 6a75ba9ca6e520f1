-- Blueprint domain 5: scheduler slots, outbox, rollups. Corrections: as in domain 1.

CREATE TABLE IF NOT EXISTS scheduled_job_runs (
  id                    BINARY(16) PRIMARY KEY,
  job_name              VARCHAR(64) NOT NULL,
  scheduled_for         DATETIME(6) NOT NULL,
  status                ENUM('running', 'completed', 'failed') NOT NULL DEFAULT 'running',
  lease_owner           VARCHAR(128),
  leased_until          DATETIME(6) NULL,
  started_at            DATETIME(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6)),
  completed_at          DATETIME(6) NULL,
  stats                 JSON NOT NULL DEFAULT (JSON_OBJECT()),
  error_code            VARCHAR(64),
  UNIQUE KEY scheduled_job_slot_uniq (job_name, scheduled_for),
  KEY scheduled_job_lease_idx (status, leased_until, job_name)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_0900_ai_ci;

CREATE TABLE IF NOT EXISTS transactional_outbox (
  id                    BINARY(16) PRIMARY KEY,
  event_key             BINARY(32) NOT NULL,
  topic                 VARCHAR(128) NOT NULL,
  partition_key         VARBINARY(128) NOT NULL,
  payload               JSON NOT NULL,
  status                ENUM('pending', 'leased', 'published', 'failed')
                          NOT NULL DEFAULT 'pending',
  attempts              SMALLINT UNSIGNED NOT NULL DEFAULT 0,
  available_at          DATETIME(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6)),
  lease_owner           VARCHAR(128),
  leased_until          DATETIME(6) NULL,
  published_at          DATETIME(6) NULL,
  last_error_code       VARCHAR(64),
  created_at            DATETIME(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6)),
  UNIQUE KEY transactional_outbox_event_uniq (event_key),
  KEY transactional_outbox_claim_idx (status, available_at, id),
  KEY transactional_outbox_expired_lease_idx (status, leased_until, id)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_0900_ai_ci;

CREATE TABLE IF NOT EXISTS project_backlink_daily_stats (
  project_id            BINARY(16) NOT NULL,
  stat_date             DATE NOT NULL,
  observations_count    BIGINT UNSIGNED NOT NULL DEFAULT 0,
  new_count             BIGINT UNSIGNED NOT NULL DEFAULT 0,
  lost_count            BIGINT UNSIGNED NOT NULL DEFAULT 0,
  recovered_count       BIGINT UNSIGNED NOT NULL DEFAULT 0,
  updated_at            DATETIME(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6)) ON UPDATE CURRENT_TIMESTAMP(6),
  PRIMARY KEY (project_id, stat_date),
  CONSTRAINT project_daily_stats_project_fk FOREIGN KEY (project_id)
    REFERENCES projects(id) ON DELETE CASCADE
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_0900_ai_ci;

CREATE TABLE IF NOT EXISTS project_referring_domain_stats (
  project_id            BINARY(16) NOT NULL,
  source_domain_id      BIGINT UNSIGNED NOT NULL,
  live_backlinks        BIGINT UNSIGNED NOT NULL DEFAULT 0,
  lost_backlinks        BIGINT UNSIGNED NOT NULL DEFAULT 0,
  first_seen_at         DATETIME(6) NULL,
  last_seen_at          DATETIME(6) NULL,
  updated_at            DATETIME(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6)) ON UPDATE CURRENT_TIMESTAMP(6),
  PRIMARY KEY (project_id, source_domain_id),
  CONSTRAINT project_domain_stats_project_fk FOREIGN KEY (project_id)
    REFERENCES projects(id) ON DELETE CASCADE,
  CONSTRAINT project_domain_stats_domain_fk FOREIGN KEY (source_domain_id)
    REFERENCES domains(id)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_0900_ai_ci;

CREATE TABLE IF NOT EXISTS project_target_current_stats (
  project_id            BINARY(16) NOT NULL,
  project_target_id     BINARY(16) NOT NULL,
  live_backlinks        BIGINT UNSIGNED NOT NULL DEFAULT 0,
  lost_backlinks        BIGINT UNSIGNED NOT NULL DEFAULT 0,
  referring_domains     BIGINT UNSIGNED NOT NULL DEFAULT 0,
  updated_at            DATETIME(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6)) ON UPDATE CURRENT_TIMESTAMP(6),
  PRIMARY KEY (project_id, project_target_id),
  CONSTRAINT project_target_stats_target_fk FOREIGN KEY (project_id, project_target_id)
    REFERENCES project_targets(project_id, id) ON DELETE CASCADE
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_0900_ai_ci;
