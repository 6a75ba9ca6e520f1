-- The two tables of the 100-million-edge stage, keyed so that they can move to Vitess keyspaces. Empty until that stage.
-- Corrections: as in domain 1; indexes for what falls due, for a source, and for what changed.

CREATE TABLE IF NOT EXISTS source_watch_subscriptions (
  source_url_key          BINARY(16) NOT NULL,
  subscription_key        BINARY(16) NOT NULL,
  tenant_id               BINARY(16) NOT NULL,
  project_id              BINARY(16) NOT NULL,
  backlink_key            BINARY(16) NOT NULL,
  target_identity_key     BINARY(16) NOT NULL,
  fetch_profile_hash      BINARY(32) NOT NULL,
  next_due_at             DATETIME(6) NOT NULL,
  validation_deadline     DATETIME(6) NOT NULL,
  priority                SMALLINT NOT NULL DEFAULT 0,
  status                  ENUM('active', 'paused', 'deleted') NOT NULL DEFAULT 'active',
  subscription_version    BIGINT UNSIGNED NOT NULL,
  updated_at              DATETIME(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6)) ON UPDATE CURRENT_TIMESTAMP(6),
  PRIMARY KEY (source_url_key, subscription_key),
  KEY source_subscription_due_idx (status, next_due_at, source_url_key),
  KEY source_subscription_updated_idx (updated_at)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_0900_ai_ci;

CREATE TABLE IF NOT EXISTS backlink_current_sharded (
  tenant_id                         BINARY(16) NOT NULL,
  project_id                        BINARY(16) NOT NULL,
  edge_bucket                       SMALLINT UNSIGNED NOT NULL,
  backlink_key                      BINARY(16) NOT NULL,
  source_url_key                    BINARY(16) NOT NULL,
  target_url_key                    BINARY(16) NOT NULL,
  current_state                     ENUM('unknown','live','lost') NOT NULL,
  source_fetch_health               ENUM('unknown','ok','blocked','error') NOT NULL,
  target_fetch_health               ENUM('unknown','ok','blocked','error') NOT NULL,
  is_redirected                     BOOLEAN NOT NULL DEFAULT FALSE,
  subscription_version              BIGINT UNSIGNED NOT NULL DEFAULT 0,
  last_applied_validation_sequence  BIGINT UNSIGNED NOT NULL DEFAULT 0,
  state_version                     BIGINT UNSIGNED NOT NULL DEFAULT 0,
  first_seen_at                     DATETIME(6) NOT NULL,
  last_checked_at                   DATETIME(6) NOT NULL,
  next_check_at                     DATETIME(6) NOT NULL,
  updated_at                        DATETIME(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6)) ON UPDATE CURRENT_TIMESTAMP(6),
  PRIMARY KEY (tenant_id, project_id, edge_bucket, backlink_key),
  KEY backlink_project_state_idx
    (tenant_id, project_id, current_state, last_checked_at DESC),
  KEY backlink_sharded_due_idx (edge_bucket, next_check_at, source_url_key),
  KEY backlink_sharded_source_idx (source_url_key),
  KEY backlink_sharded_updated_idx (updated_at)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_0900_ai_ci;
