-- The last good manifest of a source and the collapsed looks since then (transforms.collapse): as they stand now, and as they stood
-- when a window's job was claimed, so that materializing that window again compares with the same.
ALTER TABLE url_revalidation_state
  ADD COLUMN good_link_count INT UNSIGNED NULL,
  ADD COLUMN good_text_bytes INT UNSIGNED NULL,
  ADD COLUMN collapsed_looks SMALLINT UNSIGNED NOT NULL DEFAULT 0,
  ADD COLUMN collapsed_since DATETIME(6) NULL,
  ADD CONSTRAINT url_revalidation_collapse_has_a_start CHECK ((collapsed_looks = 0) = (collapsed_since IS NULL));

ALTER TABLE page_fetch_jobs
  ADD COLUMN good_link_count INT UNSIGNED NULL,
  ADD COLUMN good_text_bytes INT UNSIGNED NULL,
  ADD COLUMN collapsed_looks SMALLINT UNSIGNED NOT NULL DEFAULT 0,
  ADD COLUMN collapsed_since DATETIME(6) NULL;

-- What was parsed before this version is taken for good; its text is not known.
UPDATE url_revalidation_state AS r
JOIN page_fetch_jobs AS j ON j.id = r.last_body_job_id
JOIN page_parse_results AS p ON p.content_snapshot_id = j.content_snapshot_id AND p.status = 'completed'
SET r.good_link_count = p.links_found
WHERE r.good_link_count IS NULL;
