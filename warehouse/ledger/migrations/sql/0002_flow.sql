-- What the flow of one window needs besides the blueprint: origin clocks, robots copies, suppressions, audit, leases with
-- fences, the schedule of sources and targets, the import ledger, and columns that the evidence is made of.

-- Shard and schedule ------------------------------------------------------------------------------------------------

ALTER TABLE domains
  ADD COLUMN bucket SMALLINT UNSIGNED GENERATED ALWAYS AS
    (CONV(SUBSTR(SHA2(CONVERT(registrable_domain USING ascii), 256), 1, 2), 16, 10)) STORED NOT NULL, -- transforms.windows.bucket_of
  ADD CONSTRAINT domains_lower_case CHECK (
    CAST(hostname AS BINARY) = CAST(LOWER(hostname) AS BINARY)
    AND CAST(registrable_domain AS BINARY) = CAST(LOWER(registrable_domain) AS BINARY)),
  ADD KEY domains_registrable_idx (registrable_domain);

ALTER TABLE projects
  ADD COLUMN is_strict BOOLEAN NOT NULL DEFAULT FALSE,
  ADD CONSTRAINT projects_is_strict_bool CHECK (is_strict IN (0, 1)),
  ADD CONSTRAINT projects_recrawl_at_most_a_week CHECK (recrawl_interval_seconds <= 604800);

ALTER TABLE project_targets
  ADD COLUMN rule_version TINYINT UNSIGNED NOT NULL DEFAULT 1;

ALTER TABLE backlinks
  ADD COLUMN source_bucket SMALLINT UNSIGNED NOT NULL AFTER source_url_id,
  ADD COLUMN is_active BOOLEAN NOT NULL DEFAULT TRUE,
  ADD COLUMN any_target BOOLEAN NOT NULL DEFAULT FALSE,
  ADD COLUMN confirm_not_before DATETIME(6) NULL AFTER next_check_at,
  ADD COLUMN first_miss_at DATETIME(6) NULL,
  ADD COLUMN ever_live BOOLEAN NOT NULL DEFAULT FALSE,
  ADD COLUMN last_evidence ENUM('found', 'missing', 'none') NULL,
  ADD COLUMN last_reason VARCHAR(64) NULL,
  ADD COLUMN last_observation_id BIGINT UNSIGNED NULL,
  ADD COLUMN follow ENUM('follow', 'nofollow_link', 'nofollow_meta', 'nofollow_header') NULL,
  ADD COLUMN source_robots_indexable BOOLEAN NULL,
  ADD CONSTRAINT backlinks_booleans CHECK (is_active IN (0, 1) AND any_target IN (0, 1) AND ever_live IN (0, 1)),
  ADD CONSTRAINT backlinks_live_was_seen CHECK (current_state <> 'live' OR (ever_live = TRUE AND last_seen_live_at IS NOT NULL)),
  ADD KEY backlinks_source_due_idx (source_bucket, is_active, next_check_at, source_url_id);

ALTER TABLE backlink_observations
  ADD COLUMN evidence ENUM('found', 'missing', 'none') NOT NULL DEFAULT 'none' AFTER observed_at,
  ADD COLUMN content_hash BINARY(32) NULL,
  ADD COLUMN manifest_id BINARY(16) NULL,
  ADD COLUMN parser_version VARCHAR(64) NULL,
  ADD COLUMN source_final_url TEXT COLLATE utf8mb4_bin NULL,
  ADD COLUMN target_final_url TEXT COLLATE utf8mb4_bin NULL,
  ADD COLUMN link_url TEXT COLLATE utf8mb4_bin NULL,
  ADD COLUMN follow ENUM('follow', 'nofollow_link', 'nofollow_meta', 'nofollow_header') NULL,
  ADD CONSTRAINT observations_id_is_of_the_key CHECK (id = CAST(CONV(HEX(LEFT(idempotency_key, 8)), 16, 10) AS UNSIGNED)),
  ADD CONSTRAINT observations_complete_is_found_or_missing CHECK (evidence_complete = FALSE OR evidence <> 'none'),
  ADD CONSTRAINT observations_lost_event_requires_a_miss CHECK (transition_event <> 'lost' OR evidence = 'missing'),
  ADD CONSTRAINT observations_new_requires_a_find CHECK (transition_event NOT IN ('new', 'recovered') OR evidence = 'found'),
  ADD KEY observations_observed_idx (observed_at, id);

ALTER TABLE backlink_occurrences
  ADD COLUMN kind VARCHAR(16) NULL,
  ADD COLUMN link_url TEXT COLLATE utf8mb4_bin NULL,
  ADD COLUMN locator TEXT NULL,
  ADD COLUMN position INT UNSIGNED NULL,
  ADD COLUMN follow ENUM('follow', 'nofollow_link', 'nofollow_meta', 'nofollow_header') NULL;

-- Jobs of a window ----------------------------------------------------------------------------------------------------

ALTER TABLE page_fetch_jobs
  ADD COLUMN validation_window DATETIME(6) NOT NULL AFTER render_mode,
  ADD COLUMN bucket SMALLINT UNSIGNED NOT NULL AFTER validation_window,
  ADD COLUMN due_at DATETIME(6) NULL,
  ADD COLUMN prior_job_id BIGINT UNSIGNED NULL, -- the validation before this one, as it was known when this was claimed
  ADD COLUMN is_confirmation BOOLEAN NOT NULL DEFAULT FALSE,
  ADD COLUMN outcome ENUM('fetched', 'not_modified', 'gone', 'blocked', 'failed', 'deferred') NULL AFTER fetched_at,
  ADD COLUMN detail VARCHAR(1024) NULL,
  ADD COLUMN document_url TEXT COLLATE utf8mb4_bin NULL AFTER final_url_id,
  ADD COLUMN content_type VARCHAR(255) NULL,
  ADD COLUMN last_modified VARCHAR(255) NULL,
  ADD COLUMN robots_version VARCHAR(128) NULL,
  ADD COLUMN wire_bytes BIGINT UNSIGNED NULL,
  ADD COLUMN body_bytes BIGINT UNSIGNED NULL,
  ADD CONSTRAINT page_fetch_jobs_completed_is_dated CHECK (status <> 'completed' OR (fetched_at IS NOT NULL AND outcome IS NOT NULL)),
  ADD CONSTRAINT page_fetch_jobs_not_modified_has_a_body CHECK (outcome <> 'not_modified' OR content_snapshot_id IS NOT NULL),
  ADD CONSTRAINT page_fetch_jobs_prior_fk FOREIGN KEY (prior_job_id) REFERENCES page_fetch_jobs(id) ON DELETE SET NULL,
  ADD KEY page_fetch_jobs_window_idx (validation_window, bucket, id);

ALTER TABLE target_validation_jobs
  ADD COLUMN bucket SMALLINT UNSIGNED NOT NULL AFTER validation_window,
  ADD COLUMN outcome ENUM('fetched', 'not_modified', 'gone', 'blocked', 'failed', 'deferred') NULL AFTER validated_at,
  ADD COLUMN health ENUM('unknown', 'ok', 'blocked', 'error') NULL AFTER outcome,
  ADD COLUMN final_url TEXT COLLATE utf8mb4_bin NULL AFTER final_url_id,
  ADD COLUMN canonical_url TEXT COLLATE utf8mb4_bin NULL AFTER canonical_url_id,
  ADD COLUMN is_redirected BOOLEAN NULL,
  ADD KEY target_validation_window_idx (validation_window, bucket, id);

ALTER TABLE url_revalidation_state
  ADD COLUMN last_body_job_id BIGINT UNSIGNED NULL AFTER latest_fetch_job_id, -- newest job whose snapshot can be revalidated
  ADD COLUMN last_content_hash BINARY(32) NULL,
  ADD COLUMN last_changed_at DATETIME(6) NULL,
  ADD COLUMN change_interval_ema_s DOUBLE NULL,
  ADD COLUMN changes_seen INT UNSIGNED NOT NULL DEFAULT 0,
  ADD CONSTRAINT url_revalidation_state_body_fk FOREIGN KEY (last_body_job_id)
    REFERENCES page_fetch_jobs(id) ON DELETE SET NULL;

CREATE TABLE IF NOT EXISTS target_revalidation_state (
  target_url_id         BIGINT UNSIGNED NOT NULL PRIMARY KEY,
  bucket                SMALLINT UNSIGNED NOT NULL,
  next_check_at         DATETIME(6) NOT NULL,
  is_active             BOOLEAN NOT NULL DEFAULT TRUE,
  latest_job_id         BIGINT UNSIGNED NULL,
  last_validated_at     DATETIME(6) NULL,
  consecutive_failures  SMALLINT UNSIGNED NOT NULL DEFAULT 0,
  updated_at            DATETIME(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6)) ON UPDATE CURRENT_TIMESTAMP(6),
  CONSTRAINT target_revalidation_active_bool CHECK (is_active IN (0, 1)),
  CONSTRAINT target_revalidation_url_fk FOREIGN KEY (target_url_id) REFERENCES urls(id),
  CONSTRAINT target_revalidation_job_fk FOREIGN KEY (latest_job_id)
    REFERENCES target_validation_jobs(id) ON DELETE SET NULL,
  KEY target_revalidation_due_idx (bucket, is_active, next_check_at, target_url_id)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_0900_ai_ci;

-- A manifest's identity holds more than the blueprint's key (headers that matter, the document URL as it was answered), and a
-- document URL need not be a registered identity.
ALTER TABLE page_parse_results
  ADD COLUMN manifest_id BINARY(16) NOT NULL AFTER id,
  ADD COLUMN document_url TEXT COLLATE utf8mb4_bin NULL AFTER base_url_id,
  ADD COLUMN reason VARCHAR(64) NULL,
  MODIFY COLUMN base_url_id BIGINT UNSIGNED NULL,
  ADD UNIQUE KEY page_parse_results_manifest_uniq (manifest_id),
  ADD KEY page_parse_results_snapshot_idx (content_snapshot_id, parser_version, id),
  DROP KEY page_parse_results_identity_uniq;

-- Alerts ---------------------------------------------------------------------------------------------------------------

ALTER TABLE alert_rules
  ADD COLUMN retired_at DATETIME(6) NULL,
  ADD CONSTRAINT alert_rules_active_bool CHECK (is_active IN (0, 1));

-- No foreign key: an event outlives the hot observation, which moves to ClickHouse after its retention.
ALTER TABLE alert_events
  ADD COLUMN observation_id BIGINT UNSIGNED NULL AFTER backlink_id,
  ADD COLUMN retracted_at DATETIME(6) NULL, -- a corrected history no longer holds the event
  ADD KEY alert_events_observation_idx (observation_id),
  ADD KEY alert_events_recent_idx (alert_rule_id, backlink_id, occurred_at);

-- destination names where it goes without any secret: an address, or the reference of a secret ("env:SLACK_HOOK").
ALTER TABLE alert_deliveries
  ADD COLUMN destination VARCHAR(512) NOT NULL AFTER channel;

-- Leases, origins, robots, suppressions, audit ---------------------------------------------------------------------------

CREATE TABLE IF NOT EXISTS shard_leases (
  name                  VARCHAR(191) CHARACTER SET ascii COLLATE ascii_bin NOT NULL PRIMARY KEY,
  owner                 VARCHAR(191) NULL,
  fence                 BIGINT UNSIGNED NOT NULL DEFAULT 0, -- only ever rises
  acquired_at           DATETIME(6) NULL,
  leased_until          DATETIME(6) NULL,
  CONSTRAINT shard_leases_owner_has_an_end CHECK ((owner IS NULL) = (leased_until IS NULL))
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_0900_ai_ci;

CREATE TABLE IF NOT EXISTS origins (
  origin                VARCHAR(320) CHARACTER SET ascii COLLATE ascii_bin NOT NULL PRIMARY KEY, -- scheme://host:port
  next_eligible_at      DATETIME(6) NULL,
  in_flight             SMALLINT UNSIGNED NOT NULL DEFAULT 0,
  backoff_until         DATETIME(6) NULL,
  consecutive_errors    INT UNSIGNED NOT NULL DEFAULT 0,
  fence                 BIGINT UNSIGNED NOT NULL DEFAULT 0, -- of the shard lease that wrote it last
  min_gap_s             DOUBLE NULL, -- operator's override
  max_in_flight         SMALLINT UNSIGNED NULL, -- operator's override
  validators_sent       BIGINT UNSIGNED NOT NULL DEFAULT 0,
  validators_lied       BIGINT UNSIGNED NOT NULL DEFAULT 0,
  updated_at            DATETIME(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6)) ON UPDATE CURRENT_TIMESTAMP(6),
  CONSTRAINT origins_overrides_are_sane CHECK ((min_gap_s IS NULL OR min_gap_s >= 0) AND (max_in_flight IS NULL OR max_in_flight > 0))
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_0900_ai_ci;

CREATE TABLE IF NOT EXISTS robots_cache (
  origin                VARCHAR(320) CHARACTER SET ascii COLLATE ascii_bin NOT NULL PRIMARY KEY,
  version               VARCHAR(128) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  status_class          ENUM('ok', 'unavailable', 'unreachable') NOT NULL,
  body                  MEDIUMBLOB NOT NULL,
  fetched_at            DATETIME(6) NOT NULL,
  expires_at            DATETIME(6) NOT NULL,
  last_good_at          DATETIME(6) NULL,
  updated_at            DATETIME(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6)) ON UPDATE CURRENT_TIMESTAMP(6)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_0900_ai_ci;

-- Every version that a verdict was ever based on.
CREATE TABLE IF NOT EXISTS robots_versions (
  origin                VARCHAR(320) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  version               VARCHAR(128) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  status_class          ENUM('ok', 'unavailable', 'unreachable') NOT NULL,
  body                  MEDIUMBLOB NOT NULL,
  first_seen_at         DATETIME(6) NOT NULL,
  last_seen_at          DATETIME(6) NOT NULL,
  PRIMARY KEY (origin, version)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_0900_ai_ci;

CREATE TABLE IF NOT EXISTS suppressions (
  id                    BINARY(16) PRIMARY KEY,
  scope                 ENUM('origin', 'host', 'registrable_domain', 'url') NOT NULL,
  value                 VARCHAR(2048) COLLATE utf8mb4_bin NOT NULL,
  value_hash            BINARY(32) GENERATED ALWAYS AS (UNHEX(SHA2(value, 256))) STORED NOT NULL,
  reason                VARCHAR(255) NOT NULL,
  verified_by           VARCHAR(255) NULL,
  created_at            DATETIME(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6)),
  lifted_at             DATETIME(6) NULL,
  UNIQUE KEY suppressions_value_uniq (scope, value_hash)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_0900_ai_ci;

-- Who changed what. Rows outlive what they speak of, so nothing here is a foreign key.
CREATE TABLE IF NOT EXISTS audit_log (
  id                    BIGINT UNSIGNED AUTO_INCREMENT PRIMARY KEY,
  at                    DATETIME(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6)),
  actor                 VARCHAR(191) NOT NULL,
  action                VARCHAR(64) NOT NULL,
  tenant_id             BINARY(16) NULL,
  subject               VARCHAR(512) NOT NULL,
  detail                JSON NOT NULL DEFAULT (JSON_OBJECT()),
  KEY audit_log_tenant_idx (tenant_id, at)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_0900_ai_ci;

-- Imports of backlinks ------------------------------------------------------------------------------------------------------

ALTER TABLE import_runs
  ADD COLUMN file_name VARCHAR(512) NULL,
  ADD COLUMN file_format VARCHAR(64) NULL,
  ADD COLUMN rows_duplicate INT UNSIGNED NOT NULL DEFAULT 0,
  ADD COLUMN rows_invalid INT UNSIGNED NOT NULL DEFAULT 0,
  ADD COLUMN completed_at DATETIME(6) NULL,
  ADD COLUMN error VARCHAR(1024) NULL,
  ADD CONSTRAINT import_runs_nothing_dropped CHECK (
    status <> 'completed' OR rows_received = rows_accepted + rows_duplicate + rows_invalid);

CREATE TABLE IF NOT EXISTS import_items (
  import_run_id         BINARY(16) NOT NULL,
  line_number           INT UNSIGNED NOT NULL,
  result                ENUM('accepted', 'duplicate', 'invalid') NOT NULL,
  reason                VARCHAR(64) NULL,
  raw_source            TEXT NULL,
  raw_target            TEXT NULL,
  backlink_id           BIGINT UNSIGNED NULL, -- no foreign key: the item tells what the file held, also after the edge is gone
  PRIMARY KEY (import_run_id, line_number),
  CONSTRAINT import_items_rejects_say_why CHECK (result = 'accepted' OR reason IS NOT NULL),
  CONSTRAINT import_items_run_fk FOREIGN KEY (import_run_id) REFERENCES import_runs(id) ON DELETE CASCADE,
  KEY import_items_result_idx (import_run_id, result, line_number)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_0900_ai_ci;
