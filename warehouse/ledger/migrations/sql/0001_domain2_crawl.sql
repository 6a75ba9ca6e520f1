-- Blueprint domain 2: runs, consumers, coalesced fetch jobs, snapshots, parse results. Corrections: as in domain 1; claim
-- indexes cover filter and order of the claim (priority first), else SKIP LOCKED locks every pending row.

CREATE TABLE IF NOT EXISTS crawl_runs (
  id                    BINARY(16) PRIMARY KEY,
  tenant_id             BINARY(16) NOT NULL,
  project_id            BINARY(16) NOT NULL,
  idempotency_key       BINARY(32) NOT NULL,
  run_type              ENUM('discovery', 'verification', 'confirmation', 'metrics') NOT NULL,
  status                ENUM('queued', 'running', 'completed', 'partial', 'failed', 'cancelled')
                          NOT NULL DEFAULT 'queued',
  scheduled_at          DATETIME(6) NOT NULL,
  started_at            DATETIME(6) NULL,
  completed_at          DATETIME(6) NULL,
  pages_planned         INT UNSIGNED NOT NULL DEFAULT 0,
  pages_completed       INT UNSIGNED NOT NULL DEFAULT 0,
  pages_failed          INT UNSIGNED NOT NULL DEFAULT 0,
  expansion_completed   BOOLEAN NOT NULL DEFAULT FALSE,
  expansion_completed_at DATETIME(6) NULL,
  error_summary         JSON NOT NULL DEFAULT (JSON_OBJECT()),
  created_at            DATETIME(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6)),
  CONSTRAINT crawl_runs_expansion_bool CHECK (expansion_completed IN (0, 1)),
  CONSTRAINT crawl_runs_project_fk FOREIGN KEY (tenant_id, project_id)
    REFERENCES projects(tenant_id, id) ON DELETE CASCADE,
  UNIQUE KEY crawl_runs_idempotency_uniq (idempotency_key),
  UNIQUE KEY crawl_runs_tenant_project_id_uniq (tenant_id, project_id, id),
  KEY crawl_runs_finalize_idx (status, expansion_completed, scheduled_at, id)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_0900_ai_ci;

CREATE TABLE IF NOT EXISTS crawl_pages (
  id                    BIGINT UNSIGNED AUTO_INCREMENT PRIMARY KEY,
  tenant_id             BINARY(16) NOT NULL,
  project_id            BINARY(16) NOT NULL,
  crawl_run_id          BINARY(16) NOT NULL,
  source_url_id         BIGINT UNSIGNED NOT NULL,
  status                ENUM('waiting_fetch', 'waiting_parse', 'queued', 'leased', 'completed', 'failed')
                          NOT NULL DEFAULT 'waiting_fetch',
  priority              SMALLINT NOT NULL DEFAULT 0,
  available_at          DATETIME(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6)),
  lease_owner           VARCHAR(128),
  leased_until          DATETIME(6) NULL,
  attempts              SMALLINT UNSIGNED NOT NULL DEFAULT 0,
  completed_at          DATETIME(6) NULL,
  CONSTRAINT crawl_pages_run_fk FOREIGN KEY (tenant_id, project_id, crawl_run_id)
    REFERENCES crawl_runs(tenant_id, project_id, id) ON DELETE CASCADE,
  CONSTRAINT crawl_pages_source_url_fk FOREIGN KEY (source_url_id) REFERENCES urls(id),
  UNIQUE KEY crawl_pages_run_url_uniq (crawl_run_id, source_url_id),
  KEY crawl_pages_claim_idx (status, priority DESC, available_at, id),
  KEY crawl_pages_expired_lease_idx (status, leased_until, id)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_0900_ai_ci;

CREATE TABLE IF NOT EXISTS page_content_snapshots (
  id                    BIGINT UNSIGNED AUTO_INCREMENT PRIMARY KEY,
  content_hash          BINARY(32) NOT NULL,
  object_key            VARCHAR(1024) CHARACTER SET ascii COLLATE ascii_bin NOT NULL, -- its unique key must stay below 3072 bytes
  status                ENUM('pending', 'available', 'quarantined', 'deleted') NOT NULL DEFAULT 'pending',
  content_type          VARCHAR(255),
  storage_encoding      ENUM('gzip', 'zstd', 'identity') NOT NULL,
  uncompressed_bytes    BIGINT UNSIGNED NOT NULL,
  stored_bytes          BIGINT UNSIGNED NOT NULL,
  retention_until       DATETIME(6) NULL,
  last_referenced_at    DATETIME(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6)),
  created_at            DATETIME(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6)),
  UNIQUE KEY page_content_hash_uniq (content_hash),
  UNIQUE KEY page_content_object_key_uniq (object_key),
  KEY page_content_retention_idx (status, retention_until, id)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_0900_ai_ci;

CREATE TABLE IF NOT EXISTS page_fetch_jobs (
  id                    BIGINT UNSIGNED AUTO_INCREMENT PRIMARY KEY,
  source_url_id         BIGINT UNSIGNED NOT NULL,
  fetch_profile_hash    BINARY(32) NOT NULL,
  render_mode           ENUM('http', 'browser') NOT NULL DEFAULT 'http',
  validation_deadline   DATETIME(6) NOT NULL,
  coalescing_key        BINARY(32) NOT NULL,
  status                ENUM('queued', 'leased', 'completed', 'failed') NOT NULL DEFAULT 'queued',
  priority              SMALLINT NOT NULL DEFAULT 0,
  available_at          DATETIME(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6)),
  attempts              SMALLINT UNSIGNED NOT NULL DEFAULT 0,
  lease_owner           VARCHAR(128),
  leased_until          DATETIME(6) NULL,
  fetched_at            DATETIME(6) NULL,
  http_status           SMALLINT UNSIGNED,
  validation_method     ENUM('full_body', 'not_modified', 'no_body'),
  final_url_id          BIGINT UNSIGNED,
  content_snapshot_id   BIGINT UNSIGNED,
  etag                  VARCHAR(1024),
  last_modified_at      DATETIME(6) NULL,
  response_headers      JSON NOT NULL DEFAULT (JSON_OBJECT()),
  response_time_ms      INT UNSIGNED,
  failure_code          VARCHAR(64),
  created_at            DATETIME(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6)),
  CONSTRAINT page_fetch_jobs_source_fk FOREIGN KEY (source_url_id) REFERENCES urls(id),
  CONSTRAINT page_fetch_jobs_final_url_fk FOREIGN KEY (final_url_id) REFERENCES urls(id),
  CONSTRAINT page_fetch_jobs_content_fk FOREIGN KEY (content_snapshot_id)
    REFERENCES page_content_snapshots(id),
  UNIQUE KEY page_fetch_jobs_coalescing_uniq (coalescing_key),
  KEY page_fetch_jobs_claim_idx (status, priority DESC, available_at, id),
  KEY page_fetch_jobs_expired_lease_idx (status, leased_until, id)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_0900_ai_ci;

CREATE TABLE IF NOT EXISTS target_validation_jobs (
  id                    BIGINT UNSIGNED AUTO_INCREMENT PRIMARY KEY,
  target_url_id         BIGINT UNSIGNED NOT NULL,
  validation_window     DATETIME(6) NOT NULL,
  coalescing_key        BINARY(32) NOT NULL,
  status                ENUM('queued', 'leased', 'completed', 'failed') NOT NULL DEFAULT 'queued',
  priority              SMALLINT NOT NULL DEFAULT 0,
  available_at          DATETIME(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6)),
  attempts              SMALLINT UNSIGNED NOT NULL DEFAULT 0,
  lease_owner           VARCHAR(128),
  leased_until          DATETIME(6) NULL,
  validated_at          DATETIME(6) NULL,
  http_status           SMALLINT UNSIGNED,
  final_url_id          BIGINT UNSIGNED,
  robots_indexable      BOOLEAN,
  canonical_url_id      BIGINT UNSIGNED,
  content_snapshot_id   BIGINT UNSIGNED,
  response_headers      JSON NOT NULL DEFAULT (JSON_OBJECT()),
  response_time_ms      INT UNSIGNED,
  failure_code          VARCHAR(64),
  created_at            DATETIME(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6)),
  CONSTRAINT target_validation_url_fk FOREIGN KEY (target_url_id) REFERENCES urls(id),
  CONSTRAINT target_validation_final_url_fk FOREIGN KEY (final_url_id) REFERENCES urls(id),
  CONSTRAINT target_validation_canonical_url_fk FOREIGN KEY (canonical_url_id) REFERENCES urls(id),
  CONSTRAINT target_validation_content_fk FOREIGN KEY (content_snapshot_id)
    REFERENCES page_content_snapshots(id),
  UNIQUE KEY target_validation_coalescing_uniq (coalescing_key),
  KEY target_validation_claim_idx (status, priority DESC, available_at, id),
  KEY target_validation_expired_lease_idx (status, leased_until, id)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_0900_ai_ci;

CREATE TABLE IF NOT EXISTS crawl_page_fetch_consumers (
  crawl_page_id         BIGINT UNSIGNED PRIMARY KEY,
  page_fetch_job_id     BIGINT UNSIGNED NOT NULL,
  required_validated_after DATETIME(6) NOT NULL,
  validation_deadline   DATETIME(6) NOT NULL,
  created_at            DATETIME(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6)),
  CONSTRAINT crawl_page_fetch_consumer_page_fk FOREIGN KEY (crawl_page_id)
    REFERENCES crawl_pages(id) ON DELETE CASCADE,
  CONSTRAINT crawl_page_fetch_consumer_job_fk FOREIGN KEY (page_fetch_job_id)
    REFERENCES page_fetch_jobs(id)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_0900_ai_ci;

CREATE TABLE IF NOT EXISTS url_revalidation_state (
  source_url_id         BIGINT UNSIGNED NOT NULL,
  fetch_profile_hash    BINARY(32) NOT NULL,
  latest_fetch_job_id   BIGINT UNSIGNED,
  last_validated_at     DATETIME(6) NULL,
  next_global_due_at    DATETIME(6) NULL,
  consecutive_failures  SMALLINT UNSIGNED NOT NULL DEFAULT 0,
  updated_at            DATETIME(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6)) ON UPDATE CURRENT_TIMESTAMP(6),
  PRIMARY KEY (source_url_id, fetch_profile_hash),
  CONSTRAINT url_revalidation_state_url_fk FOREIGN KEY (source_url_id) REFERENCES urls(id),
  CONSTRAINT url_revalidation_state_fetch_fk FOREIGN KEY (latest_fetch_job_id)
    REFERENCES page_fetch_jobs(id) ON DELETE SET NULL,
  KEY url_revalidation_due_idx (next_global_due_at, source_url_id)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_0900_ai_ci;

CREATE TABLE IF NOT EXISTS page_parse_results (
  id                    BIGINT UNSIGNED AUTO_INCREMENT PRIMARY KEY,
  content_snapshot_id   BIGINT UNSIGNED NOT NULL,
  base_url_id           BIGINT UNSIGNED NOT NULL,
  parser_version        VARCHAR(64) NOT NULL,
  manifest_schema_version SMALLINT UNSIGNED NOT NULL,
  status                ENUM('queued', 'leased', 'completed', 'failed') NOT NULL DEFAULT 'queued',
  priority              SMALLINT NOT NULL DEFAULT 0,
  available_at          DATETIME(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6)),
  attempts              SMALLINT UNSIGNED NOT NULL DEFAULT 0,
  lease_owner           VARCHAR(128),
  leased_until          DATETIME(6) NULL,
  link_manifest_key     VARCHAR(1024),
  link_manifest_hash    BINARY(32),
  links_found           INT UNSIGNED,
  parse_complete        BOOLEAN NOT NULL DEFAULT FALSE,
  is_truncated          BOOLEAN NOT NULL DEFAULT FALSE,
  failure_code          VARCHAR(64),
  completed_at          DATETIME(6) NULL,
  created_at            DATETIME(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6)),
  CONSTRAINT page_parse_results_booleans CHECK (parse_complete IN (0, 1) AND is_truncated IN (0, 1)),
  CONSTRAINT page_parse_results_truncated_is_not_complete CHECK (parse_complete = FALSE OR is_truncated = FALSE),
  CONSTRAINT page_parse_results_content_fk FOREIGN KEY (content_snapshot_id)
    REFERENCES page_content_snapshots(id),
  CONSTRAINT page_parse_results_base_url_fk FOREIGN KEY (base_url_id) REFERENCES urls(id),
  UNIQUE KEY page_parse_results_identity_uniq
    (content_snapshot_id, base_url_id, parser_version, manifest_schema_version),
  KEY page_parse_results_claim_idx (status, priority DESC, available_at, id),
  KEY page_parse_results_expired_lease_idx (status, leased_until, id)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_0900_ai_ci;

CREATE TABLE IF NOT EXISTS crawl_page_parse_consumers (
  crawl_page_id         BIGINT UNSIGNED PRIMARY KEY,
  page_parse_result_id  BIGINT UNSIGNED NOT NULL,
  created_at            DATETIME(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6)),
  CONSTRAINT crawl_page_parse_consumer_page_fk FOREIGN KEY (crawl_page_id)
    REFERENCES crawl_pages(id) ON DELETE CASCADE,
  CONSTRAINT crawl_page_parse_consumer_result_fk FOREIGN KEY (page_parse_result_id)
    REFERENCES page_parse_results(id)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_0900_ai_ci;
