-- Blueprint domain 3: edges, what they match, where they stand on the page, hot observations. Corrections: as in domain 1,
-- and what is marked in the lines.

CREATE TABLE IF NOT EXISTS backlinks (
  id                    BIGINT UNSIGNED AUTO_INCREMENT PRIMARY KEY,
  project_id            BINARY(16) NOT NULL,
  source_url_id         BIGINT UNSIGNED NOT NULL,
  target_url_id         BIGINT UNSIGNED NOT NULL,
  first_discovery_source ENUM('crawler', 'provider_import', 'search_console', 'manual', 'api') NOT NULL,
  current_state         ENUM('unknown', 'live', 'lost') NOT NULL DEFAULT 'unknown',
  source_fetch_health   ENUM('unknown', 'ok', 'blocked', 'error') NOT NULL DEFAULT 'unknown',
  target_fetch_health   ENUM('unknown', 'ok', 'blocked', 'error') NOT NULL DEFAULT 'unknown',
  is_redirected         BOOLEAN NOT NULL DEFAULT FALSE,
  state_version         BIGINT UNSIGNED NOT NULL DEFAULT 0,
  first_seen_at         DATETIME(6) NOT NULL,
  last_checked_at       DATETIME(6) NULL, -- an imported edge has not been checked yet
  next_check_at         DATETIME(6) NOT NULL,
  check_priority        SMALLINT NOT NULL DEFAULT 0,
  last_seen_live_at     DATETIME(6) NULL,
  lost_at               DATETIME(6) NULL,
  consecutive_failures  SMALLINT UNSIGNED NOT NULL DEFAULT 0,
  source_http_status    SMALLINT UNSIGNED,
  target_http_status    SMALLINT UNSIGNED,
  final_target_url_id   BIGINT UNSIGNED,
  target_robots_indexable BOOLEAN,
  anchor_text           TEXT,
  link_count            SMALLINT UNSIGNED NOT NULL DEFAULT 1,
  rel_nofollow          BOOLEAN NOT NULL DEFAULT FALSE,
  rel_sponsored         BOOLEAN NOT NULL DEFAULT FALSE,
  rel_ugc               BOOLEAN NOT NULL DEFAULT FALSE,
  is_image_link         BOOLEAN NOT NULL DEFAULT FALSE,
  is_sitewide           BOOLEAN NOT NULL DEFAULT FALSE,
  placement             ENUM('content', 'header', 'footer', 'sidebar', 'unknown'),
  language_code         VARCHAR(16),
  updated_at            DATETIME(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6)) ON UPDATE CURRENT_TIMESTAMP(6),
  CONSTRAINT backlinks_lost_has_a_time CHECK (current_state <> 'lost' OR lost_at IS NOT NULL),
  CONSTRAINT backlinks_project_fk FOREIGN KEY (project_id)
    REFERENCES projects(id) ON DELETE CASCADE,
  CONSTRAINT backlinks_source_url_fk FOREIGN KEY (source_url_id) REFERENCES urls(id),
  CONSTRAINT backlinks_target_url_fk FOREIGN KEY (target_url_id) REFERENCES urls(id),
  CONSTRAINT backlinks_final_target_url_fk FOREIGN KEY (final_target_url_id) REFERENCES urls(id),
  UNIQUE KEY backlinks_project_edge_uniq (project_id, source_url_id, target_url_id),
  UNIQUE KEY backlinks_project_id_uniq (project_id, id),
  KEY backlinks_due_idx (project_id, next_check_at, check_priority, source_url_id),
  KEY backlinks_state_idx (project_id, current_state, last_checked_at, id)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_0900_ai_ci;

CREATE TABLE IF NOT EXISTS backlink_target_matches (
  project_id            BINARY(16) NOT NULL,
  backlink_id           BIGINT UNSIGNED NOT NULL,
  project_target_id     BINARY(16) NOT NULL,
  first_matched_at      DATETIME(6) NOT NULL,
  last_matched_at       DATETIME(6) NOT NULL,
  is_active             BOOLEAN NOT NULL DEFAULT TRUE,
  ended_at              DATETIME(6) NULL,
  PRIMARY KEY (backlink_id, project_target_id),
  CONSTRAINT backlink_target_matches_active_bool CHECK (is_active IN (0, 1)),
  CONSTRAINT backlink_target_matches_backlink_fk
    FOREIGN KEY (project_id, backlink_id)
    REFERENCES backlinks(project_id, id) ON DELETE CASCADE,
  CONSTRAINT backlink_target_matches_target_fk
    FOREIGN KEY (project_id, project_target_id)
    REFERENCES project_targets(project_id, id) ON DELETE CASCADE
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_0900_ai_ci;

CREATE TABLE IF NOT EXISTS backlink_occurrences (
  id                    BIGINT UNSIGNED AUTO_INCREMENT PRIMARY KEY,
  backlink_id           BIGINT UNSIGNED NOT NULL,
  occurrence_key        BINARY(32) NOT NULL,
  locator_hash          BINARY(32),
  anchor_text           TEXT,
  rel_nofollow          BOOLEAN NOT NULL DEFAULT FALSE,
  rel_sponsored         BOOLEAN NOT NULL DEFAULT FALSE,
  rel_ugc               BOOLEAN NOT NULL DEFAULT FALSE,
  is_image_link         BOOLEAN NOT NULL DEFAULT FALSE,
  placement             ENUM('content', 'header', 'footer', 'sidebar', 'unknown'),
  first_seen_at         DATETIME(6) NOT NULL,
  last_seen_at          DATETIME(6) NOT NULL,
  is_live               BOOLEAN NOT NULL DEFAULT TRUE,
  CONSTRAINT backlink_occurrences_backlink_fk FOREIGN KEY (backlink_id)
    REFERENCES backlinks(id) ON DELETE CASCADE,
  UNIQUE KEY backlink_occurrences_identity_uniq (backlink_id, occurrence_key)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_0900_ai_ci;

CREATE TABLE IF NOT EXISTS backlink_observations (
  id                    BIGINT UNSIGNED PRIMARY KEY, -- first 64 bits of idempotency_key: ClickHouse and MySQL agree before either is written
  backlink_id           BIGINT UNSIGNED NOT NULL,
  crawl_run_id          BINARY(16),
  page_fetch_job_id     BIGINT UNSIGNED,
  target_validation_job_id BIGINT UNSIGNED,
  page_parse_result_id  BIGINT UNSIGNED,
  idempotency_key       BINARY(32) NOT NULL,
  observed_at           DATETIME(6) NOT NULL,
  evidence_complete     BOOLEAN NOT NULL DEFAULT FALSE,
  evidence_reason       VARCHAR(64),
  state                 ENUM('unknown', 'live', 'lost') NOT NULL,
  transition_event      ENUM('none', 'new', 'lost', 'recovered') NOT NULL DEFAULT 'none',
  source_fetch_health   ENUM('unknown', 'ok', 'blocked', 'error') NOT NULL DEFAULT 'unknown',
  target_fetch_health   ENUM('unknown', 'ok', 'blocked', 'error') NOT NULL DEFAULT 'unknown',
  is_redirected         BOOLEAN NOT NULL DEFAULT FALSE,
  state_version         BIGINT UNSIGNED NOT NULL,
  source_http_status    SMALLINT UNSIGNED,
  target_http_status    SMALLINT UNSIGNED,
  final_target_url_id   BIGINT UNSIGNED,
  anchor_text           TEXT,
  link_count            SMALLINT UNSIGNED NOT NULL DEFAULT 0,
  rel_nofollow          BOOLEAN NOT NULL DEFAULT FALSE,
  rel_sponsored         BOOLEAN NOT NULL DEFAULT FALSE,
  rel_ugc               BOOLEAN NOT NULL DEFAULT FALSE,
  is_image_link         BOOLEAN NOT NULL DEFAULT FALSE,
  placement             VARCHAR(32),
  page_title            TEXT,
  html_lang             VARCHAR(16),
  canonical_url_id      BIGINT UNSIGNED,
  source_robots_indexable BOOLEAN,
  target_robots_indexable BOOLEAN,
  response_time_ms      INT UNSIGNED,
  failure_code          VARCHAR(64),
  metadata              JSON NOT NULL DEFAULT (JSON_OBJECT()),
  CONSTRAINT observations_backlink_fk FOREIGN KEY (backlink_id)
    REFERENCES backlinks(id) ON DELETE CASCADE,
  CONSTRAINT observations_run_fk FOREIGN KEY (crawl_run_id)
    REFERENCES crawl_runs(id) ON DELETE SET NULL,
  CONSTRAINT observations_fetch_job_fk FOREIGN KEY (page_fetch_job_id)
    REFERENCES page_fetch_jobs(id),
  CONSTRAINT observations_target_validation_job_fk FOREIGN KEY (target_validation_job_id)
    REFERENCES target_validation_jobs(id),
  CONSTRAINT observations_parse_result_fk FOREIGN KEY (page_parse_result_id)
    REFERENCES page_parse_results(id),
  lost_at               DATETIME(6) NULL,
  misses                SMALLINT UNSIGNED NOT NULL DEFAULT 0,
  -- Lost needs complete evidence here, or must have been lost at an earlier observation (one without evidence keeps the
  -- state; the published check refused those).
  CONSTRAINT observations_lost_requires_complete_chk CHECK (
    state <> 'lost' OR evidence_complete = TRUE OR (lost_at IS NOT NULL AND lost_at < observed_at)),
  CONSTRAINT observations_lost_event_requires_two_misses_chk CHECK (
    transition_event <> 'lost' OR (state = 'lost' AND evidence_complete = TRUE AND misses >= 2)),
  CONSTRAINT observations_complete_bool CHECK (evidence_complete IN (0, 1)),
  UNIQUE KEY observations_idempotency_uniq (idempotency_key),
  KEY observations_backlink_time_idx (backlink_id, observed_at, id)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_0900_ai_ci;
