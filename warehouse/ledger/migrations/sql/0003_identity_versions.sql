-- Which version of the rules of URL identity the ledger is at, and what a change of version does to URLs and edges.

-- One row. Writers of URLs and edges hold it in share mode; a migration's steps hold it alone. No row: no URL yet.
CREATE TABLE IF NOT EXISTS url_identity_state (
  id                    TINYINT UNSIGNED NOT NULL PRIMARY KEY,
  version               SMALLINT UNSIGNED NOT NULL, -- what is registered and read now
  from_version          SMALLINT UNSIGNED NULL, -- the version before, while rows of it are left
  target_version        SMALLINT UNSIGNED NULL, -- of the migration under way
  phase                 ENUM('steady', 'planning', 'rewriting') NOT NULL DEFAULT 'steady',
  cursor_id             BIGINT UNSIGNED NOT NULL DEFAULT 0, -- urls up to here are planned, or rewritten
  ceiling_id            BIGINT UNSIGNED NOT NULL DEFAULT 0, -- urls above are of the new version from the start
  unchanged             BIGINT UNSIGNED NOT NULL DEFAULT 0, -- urls that only got a new hash
  started_at            DATETIME(6) NULL,
  switched_at           DATETIME(6) NULL,
  finished_at           DATETIME(6) NULL,
  CONSTRAINT url_identity_state_is_one_row CHECK (id = 1),
  CONSTRAINT url_identity_state_says_what_it_does CHECK (
    (phase = 'steady' AND target_version IS NULL AND from_version IS NULL)
    OR (phase = 'planning' AND target_version > version AND from_version IS NULL)
    OR (phase = 'rewriting' AND target_version = version AND from_version < version))
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_0900_ai_ci;

INSERT INTO url_identity_state (id, version)
SELECT 1, 1 FROM DUAL WHERE EXISTS (SELECT 1 FROM urls)
ON DUPLICATE KEY UPDATE id = 1;

-- One row per URL whose identity is another one under a version (not those that only get a new hash). Kept: it is the record.
CREATE TABLE IF NOT EXISTS url_identity_changes (
  url_id                BIGINT UNSIGNED NOT NULL,
  to_version            SMALLINT UNSIGNED NOT NULL,
  from_version          SMALLINT UNSIGNED NOT NULL,
  verdict               ENUM('planned', 'renamed', 'merged', 'refused') NOT NULL,
  old_url               VARCHAR(2048) COLLATE utf8mb4_bin NOT NULL,
  new_url               VARCHAR(2048) COLLATE utf8mb4_bin NULL,
  new_hash              BINARY(32) NULL,
  host                  VARCHAR(253) CHARACTER SET ascii COLLATE ascii_general_ci NULL,
  registrable_domain    VARCHAR(253) CHARACTER SET ascii COLLATE ascii_general_ci NULL,
  public_suffix         VARCHAR(253) CHARACTER SET ascii COLLATE ascii_general_ci NULL,
  reason                VARCHAR(64) NULL, -- why it is refused
  survivor_id           BIGINT UNSIGNED NULL, -- the URL that a merged one became
  edges                 INT UNSIGNED NOT NULL DEFAULT 0, -- edges that were moved, merged or stopped
  applied_at            DATETIME(6) NULL,
  PRIMARY KEY (url_id, to_version),
  CONSTRAINT url_identity_changes_url_fk FOREIGN KEY (url_id) REFERENCES urls(id),
  CONSTRAINT url_identity_changes_survivor_fk FOREIGN KEY (survivor_id) REFERENCES urls(id),
  CONSTRAINT url_identity_changes_are_whole CHECK (
    ((verdict = 'refused') = (new_hash IS NULL)) AND ((verdict = 'refused') = (reason IS NOT NULL))
    AND ((verdict = 'merged') = (survivor_id IS NOT NULL)) AND (verdict <> 'renamed' OR applied_at IS NOT NULL)),
  KEY url_identity_changes_new_idx (to_version, new_hash, url_id),
  KEY url_identity_changes_open_idx (to_version, verdict, applied_at, url_id)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_0900_ai_ci;

-- An edge that became another one, because its source or target did. No foreign keys: the loser is gone, and the facts in
-- ClickHouse and items of imports still name it.
CREATE TABLE IF NOT EXISTS backlink_merges (
  loser_id              BIGINT UNSIGNED NOT NULL PRIMARY KEY,
  survivor_id           BIGINT UNSIGNED NOT NULL,
  project_id            BINARY(16) NOT NULL,
  to_version            SMALLINT UNSIGNED NOT NULL,
  merged_at             DATETIME(6) NOT NULL,
  facts_moved_at        DATETIME(6) NULL, -- when the facts in ClickHouse were given to the survivor
  KEY backlink_merges_survivor_idx (survivor_id),
  KEY backlink_merges_open_idx (facts_moved_at, loser_id)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_0900_ai_ci;
