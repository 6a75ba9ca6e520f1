-- Blueprint domain 4: metrics, provider imports, alerts and their deliveries. Corrections: as in domain 1, and what is marked.

CREATE TABLE IF NOT EXISTS domain_metric_snapshots (
  domain_id             BIGINT UNSIGNED NOT NULL,
  measured_at           DATETIME(6) NOT NULL,
  provider              VARCHAR(64) NOT NULL,
  authority_score       DECIMAL(6,2),
  spam_score            DECIMAL(6,2),
  referring_domains     BIGINT UNSIGNED,
  backlinks             BIGINT UNSIGNED,
  estimated_traffic     BIGINT UNSIGNED,
  organic_keywords      BIGINT UNSIGNED,
  metadata              JSON NOT NULL DEFAULT (JSON_OBJECT()),
  PRIMARY KEY (domain_id, provider, measured_at),
  CONSTRAINT domain_metrics_domain_fk FOREIGN KEY (domain_id) REFERENCES domains(id)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_0900_ai_ci;

CREATE TABLE IF NOT EXISTS page_metric_snapshots (
  url_id                BIGINT UNSIGNED NOT NULL,
  measured_at           DATETIME(6) NOT NULL,
  provider              VARCHAR(64) NOT NULL,
  authority_score       DECIMAL(6,2),
  estimated_traffic     BIGINT UNSIGNED,
  outgoing_links        INT UNSIGNED,
  metadata              JSON NOT NULL DEFAULT (JSON_OBJECT()),
  PRIMARY KEY (url_id, provider, measured_at),
  CONSTRAINT page_metrics_url_fk FOREIGN KEY (url_id) REFERENCES urls(id)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_0900_ai_ci;

CREATE TABLE IF NOT EXISTS provider_connections (
  id                    BINARY(16) PRIMARY KEY,
  tenant_id             BINARY(16) NOT NULL,
  provider              VARCHAR(64) NOT NULL,
  secret_reference      VARCHAR(1024) NOT NULL, -- Secret Manager key reference
  status                ENUM('active', 'disabled', 'error') NOT NULL DEFAULT 'active',
  created_at            DATETIME(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6)),
  UNIQUE KEY provider_connections_tenant_uniq (tenant_id, provider),
  UNIQUE KEY provider_connections_tenant_id_uniq (tenant_id, id)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_0900_ai_ci;

CREATE TABLE IF NOT EXISTS import_runs (
  id                     BINARY(16) PRIMARY KEY,
  tenant_id              BINARY(16) NOT NULL,
  project_id             BINARY(16) NOT NULL,
  provider_connection_id BINARY(16),
  provider               VARCHAR(64) NOT NULL,
  status                 ENUM('queued', 'running', 'completed', 'partial', 'failed', 'cancelled')
                           NOT NULL DEFAULT 'queued',
  `cursor`               TEXT, -- a reserved word
  rows_received          INT UNSIGNED NOT NULL DEFAULT 0,
  rows_accepted          INT UNSIGNED NOT NULL DEFAULT 0,
  created_at             DATETIME(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6)),
  CONSTRAINT import_runs_project_fk FOREIGN KEY (tenant_id, project_id)
    REFERENCES projects(tenant_id, id) ON DELETE CASCADE,
  CONSTRAINT import_runs_connection_fk FOREIGN KEY (tenant_id, provider_connection_id)
    REFERENCES provider_connections(tenant_id, id) ON DELETE RESTRICT,
  UNIQUE KEY import_runs_tenant_id_uniq (tenant_id, id)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_0900_ai_ci;

CREATE TABLE IF NOT EXISTS backlink_discoveries (
  id                     BIGINT UNSIGNED AUTO_INCREMENT PRIMARY KEY,
  tenant_id              BINARY(16) NOT NULL,
  project_id             BINARY(16) NOT NULL,
  backlink_id            BIGINT UNSIGNED NOT NULL,
  discovery_key          BINARY(32) NOT NULL,
  source                 ENUM('crawler', 'provider_import', 'search_console', 'manual', 'api') NOT NULL,
  provider               VARCHAR(64),
  first_discovered_at    DATETIME(6) NOT NULL,
  last_discovered_at     DATETIME(6) NOT NULL,
  CONSTRAINT backlink_discoveries_project_fk FOREIGN KEY (tenant_id, project_id)
    REFERENCES projects(tenant_id, id) ON DELETE CASCADE,
  CONSTRAINT backlink_discoveries_backlink_fk FOREIGN KEY (project_id, backlink_id)
    REFERENCES backlinks(project_id, id) ON DELETE CASCADE,
  UNIQUE KEY backlink_discoveries_key_uniq (discovery_key)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_0900_ai_ci;

CREATE TABLE IF NOT EXISTS alert_rules (
  id                    BINARY(16) PRIMARY KEY,
  project_id            BINARY(16) NOT NULL,
  name                  VARCHAR(255) NOT NULL,
  event_types           JSON NOT NULL,
  filters               JSON NOT NULL DEFAULT (JSON_OBJECT()),
  channels              JSON NOT NULL DEFAULT (JSON_ARRAY()),
  cooldown_seconds      INT UNSIGNED NOT NULL DEFAULT 3600,
  is_active             BOOLEAN NOT NULL DEFAULT TRUE,
  created_at            DATETIME(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6)),
  CONSTRAINT alert_rules_project_fk FOREIGN KEY (project_id)
    REFERENCES projects(id) ON DELETE CASCADE,
  UNIQUE KEY alert_rules_project_id_uniq (project_id, id)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_0900_ai_ci;

CREATE TABLE IF NOT EXISTS alert_events (
  id                    BINARY(16) PRIMARY KEY,
  project_id            BINARY(16) NOT NULL,
  alert_rule_id         BINARY(16),
  backlink_id           BIGINT UNSIGNED,
  event_type            VARCHAR(64) NOT NULL,
  deduplication_key     BINARY(32) NOT NULL,
  payload               JSON NOT NULL,
  occurred_at           DATETIME(6) NOT NULL,
  aggregate_delivery_status ENUM('pending', 'partial', 'delivered', 'failed', 'cancelled')
                          NOT NULL DEFAULT 'pending',
  created_at            DATETIME(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6)),
  CONSTRAINT alert_events_project_fk FOREIGN KEY (project_id)
    REFERENCES projects(id) ON DELETE CASCADE,
  CONSTRAINT alert_events_rule_fk FOREIGN KEY (project_id, alert_rule_id)
    REFERENCES alert_rules(project_id, id) ON DELETE CASCADE, -- RESTRICT made projects undeletable; rules are retired, not deleted
  CONSTRAINT alert_events_backlink_fk FOREIGN KEY (project_id, backlink_id)
    REFERENCES backlinks(project_id, id) ON DELETE CASCADE,
  UNIQUE KEY alert_events_dedupe_uniq (deduplication_key)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_0900_ai_ci;

CREATE TABLE IF NOT EXISTS alert_deliveries (
  id                    BIGINT UNSIGNED AUTO_INCREMENT PRIMARY KEY,
  alert_event_id        BINARY(16) NOT NULL,
  channel               ENUM('email', 'slack', 'webhook') NOT NULL,
  destination_hash      BINARY(32) NOT NULL,
  status                ENUM('pending', 'leased', 'delivered', 'failed', 'cancelled')
                          NOT NULL DEFAULT 'pending',
  attempts              SMALLINT UNSIGNED NOT NULL DEFAULT 0,
  available_at          DATETIME(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6)),
  lease_owner           VARCHAR(128),
  leased_until          DATETIME(6) NULL,
  delivered_at          DATETIME(6) NULL,
  last_error_code       VARCHAR(64),
  created_at            DATETIME(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6)),
  CONSTRAINT alert_deliveries_event_fk FOREIGN KEY (alert_event_id)
    REFERENCES alert_events(id) ON DELETE CASCADE,
  UNIQUE KEY alert_delivery_destination_uniq
    (alert_event_id, channel, destination_hash),
  KEY alert_deliveries_claim_idx (status, available_at, id),
  KEY alert_deliveries_expired_lease_idx (status, leased_until, id)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_0900_ai_ci;
