-- Blueprint domain 1: projects, quotas, URL dictionary, target rules. Corrections against the published text:
-- TIMESTAMP(6) became DATETIME(6) with UTC defaults (TIMESTAMP ends in 2038 and follows the session's time zone), BOOLEAN
-- columns that carry a promise are checked (MySQL's BOOLEAN accepts 2), and what is marked in the lines.

CREATE TABLE IF NOT EXISTS projects (
  id                       BINARY(16) PRIMARY KEY,
  tenant_id                BINARY(16) NOT NULL,
  name                     VARCHAR(255) NOT NULL,
  timezone                 VARCHAR(64) NOT NULL DEFAULT 'UTC',
  recrawl_interval_seconds INT UNSIGNED NOT NULL DEFAULT 86400,
  next_crawl_at            DATETIME(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6)),
  last_crawl_at            DATETIME(6) NULL,
  is_active                BOOLEAN NOT NULL DEFAULT TRUE,
  created_at               DATETIME(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6)),
  updated_at               DATETIME(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6)) ON UPDATE CURRENT_TIMESTAMP(6),
  CONSTRAINT projects_recrawl_positive CHECK (recrawl_interval_seconds > 0),
  CONSTRAINT projects_is_active_bool CHECK (is_active IN (0, 1)),
  UNIQUE KEY projects_tenant_name_uniq (tenant_id, name),
  UNIQUE KEY projects_tenant_id_uniq (tenant_id, id),
  KEY projects_due_idx (is_active, next_crawl_at, id)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_0900_ai_ci;

CREATE TABLE IF NOT EXISTS tenant_crawl_limits (
  tenant_id                BINARY(16) PRIMARY KEY,
  daily_page_check_limit   INT UNSIGNED NOT NULL,
  max_concurrent_checks    INT UNSIGNED NOT NULL DEFAULT 10,
  max_active_jobs          INT UNSIGNED NOT NULL DEFAULT 10000,
  max_targets_per_project  INT UNSIGNED NOT NULL DEFAULT 300,
  max_links_per_page       INT UNSIGNED NOT NULL DEFAULT 10000,
  daily_browser_seconds    INT UNSIGNED NOT NULL DEFAULT 0,
  scheduler_weight         TINYINT UNSIGNED NOT NULL DEFAULT 1,
  updated_at               DATETIME(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6)) ON UPDATE CURRENT_TIMESTAMP(6)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_0900_ai_ci;

CREATE TABLE IF NOT EXISTS tenant_crawl_usage_daily (
  tenant_id                BINARY(16) NOT NULL,
  usage_date               DATE NOT NULL,
  page_checks_reserved     BIGINT UNSIGNED NOT NULL DEFAULT 0,
  page_checks_completed    BIGINT UNSIGNED NOT NULL DEFAULT 0,
  network_fetches          BIGINT UNSIGNED NOT NULL DEFAULT 0,
  bytes_downloaded         BIGINT UNSIGNED NOT NULL DEFAULT 0,
  browser_render_ms        BIGINT UNSIGNED NOT NULL DEFAULT 0,
  provider_rows_ingested   BIGINT UNSIGNED NOT NULL DEFAULT 0,
  updated_at               DATETIME(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6)) ON UPDATE CURRENT_TIMESTAMP(6),
  PRIMARY KEY (tenant_id, usage_date)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_0900_ai_ci;

CREATE TABLE IF NOT EXISTS domains (
  id                    BIGINT UNSIGNED AUTO_INCREMENT PRIMARY KEY,
  hostname              VARCHAR(253) CHARACTER SET ascii COLLATE ascii_general_ci NOT NULL,
  registrable_domain    VARCHAR(253) CHARACTER SET ascii COLLATE ascii_general_ci NOT NULL,
  public_suffix         VARCHAR(253) CHARACTER SET ascii COLLATE ascii_general_ci,
  created_at            DATETIME(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6)),
  UNIQUE KEY domains_hostname_uniq (hostname)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_0900_ai_ci;

CREATE TABLE IF NOT EXISTS urls (
  id                    BIGINT UNSIGNED AUTO_INCREMENT PRIMARY KEY,
  domain_id             BIGINT UNSIGNED NOT NULL,
  normalized_url        VARCHAR(2048) COLLATE utf8mb4_bin NOT NULL,
  normalization_version SMALLINT UNSIGNED NOT NULL,
  url_hash              BINARY(32) NOT NULL,
  scheme                ENUM('http', 'https') NOT NULL,
  path                  VARCHAR(2048) COLLATE utf8mb4_bin NOT NULL DEFAULT '/',
  query_string          TEXT COLLATE utf8mb4_bin,
  created_at            DATETIME(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6)),
  CONSTRAINT urls_domain_fk FOREIGN KEY (domain_id) REFERENCES domains(id),
  UNIQUE KEY urls_hash_uniq (url_hash)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_0900_ai_ci;

CREATE TABLE IF NOT EXISTS project_targets (
  id                    BINARY(16) PRIMARY KEY,
  project_id            BINARY(16) NOT NULL,
  scope                 ENUM('domain', 'subdomain', 'url_prefix', 'exact_url') NOT NULL,
  domain_id             BIGINT UNSIGNED,
  url_id                BIGINT UNSIGNED,
  url_prefix            VARCHAR(2048) COLLATE utf8mb4_bin,
  target_key            BINARY(32) NOT NULL,
  include_subdomains    BOOLEAN NOT NULL DEFAULT TRUE,
  is_active             BOOLEAN NOT NULL DEFAULT TRUE,
  is_primary            BOOLEAN NOT NULL DEFAULT FALSE,
  paused_at             DATETIME(6) NULL,
  deleted_at            DATETIME(6) NULL,
  active_target_key     BINARY(32) GENERATED ALWAYS AS
                          (CASE WHEN deleted_at IS NULL THEN target_key ELSE NULL END) STORED,
  primary_project_id    BINARY(16) GENERATED ALWAYS AS
                          (CASE WHEN is_primary = TRUE AND deleted_at IS NULL
                                THEN project_id ELSE NULL END) VIRTUAL, -- STORED may not stand on a column of a cascading key
  created_at            DATETIME(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6)),
  CONSTRAINT project_targets_booleans CHECK (is_active IN (0, 1) AND is_primary IN (0, 1) AND include_subdomains IN (0, 1)),
  CONSTRAINT project_targets_scope_names_its_target CHECK (
    (scope IN ('domain', 'subdomain') AND domain_id IS NOT NULL)
    OR (scope = 'url_prefix' AND domain_id IS NOT NULL AND url_prefix IS NOT NULL)
    OR (scope = 'exact_url' AND url_id IS NOT NULL)),
  CONSTRAINT project_targets_project_fk FOREIGN KEY (project_id)
    REFERENCES projects(id) ON DELETE CASCADE,
  CONSTRAINT project_targets_domain_fk FOREIGN KEY (domain_id) REFERENCES domains(id),
  CONSTRAINT project_targets_url_fk FOREIGN KEY (url_id) REFERENCES urls(id),
  UNIQUE KEY project_targets_active_identity_uniq (project_id, active_target_key),
  UNIQUE KEY one_primary_target_per_project (primary_project_id),
  UNIQUE KEY project_targets_project_id_uniq (project_id, id)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_0900_ai_ci;

CREATE TABLE IF NOT EXISTS target_import_batches (
  id                    BINARY(16) PRIMARY KEY,
  project_id            BINARY(16) NOT NULL,
  submitted_count       INT UNSIGNED NOT NULL,
  accepted_count        INT UNSIGNED NOT NULL DEFAULT 0,
  duplicate_count       INT UNSIGNED NOT NULL DEFAULT 0,
  invalid_count         INT UNSIGNED NOT NULL DEFAULT 0,
  status                ENUM('processing', 'completed', 'failed') NOT NULL DEFAULT 'processing',
  created_at            DATETIME(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6)),
  completed_at          DATETIME(6) NULL,
  CONSTRAINT target_import_batches_project_fk FOREIGN KEY (project_id)
    REFERENCES projects(id) ON DELETE CASCADE
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_0900_ai_ci;

CREATE TABLE IF NOT EXISTS target_import_items (
  batch_id              BINARY(16) NOT NULL,
  `row_number`          INT UNSIGNED NOT NULL, -- a reserved word
  raw_url               TEXT NOT NULL,
  url_id                BIGINT UNSIGNED,
  project_target_id     BINARY(16),
  result                ENUM('accepted', 'duplicate', 'invalid') NOT NULL,
  error_code            VARCHAR(64),
  PRIMARY KEY (batch_id, `row_number`),
  CONSTRAINT target_import_items_batch_fk FOREIGN KEY (batch_id)
    REFERENCES target_import_batches(id) ON DELETE CASCADE,
  CONSTRAINT target_import_items_url_fk FOREIGN KEY (url_id) REFERENCES urls(id),
  CONSTRAINT target_import_items_target_fk FOREIGN KEY (project_target_id)
    REFERENCES project_targets(id) ON DELETE SET NULL
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_0900_ai_ci;
