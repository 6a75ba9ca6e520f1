UPDATE page_fetch_jobs AS j
JOIN stage_results AS s ON s.fetch_job_id = j.id
LEFT JOIN page_content_snapshots AS c ON c.content_hash = s.content_hash AND c.status = 'available'
LEFT JOIN page_fetch_jobs AS p ON p.id = j.prior_job_id
LEFT JOIN urls AS u ON u.id = j.source_url_id
SET j.status = CASE WHEN s.outcome IN ('fetched', 'not_modified', 'gone') THEN 'completed'
                    WHEN s.outcome = 'deferred' THEN 'queued' ELSE 'failed' END,
    j.outcome = s.outcome, j.fetched_at = s.fetched_at, j.http_status = s.http_status,
    j.validation_method = s.validation_method, j.attempts = GREATEST(j.attempts, s.attempt),
    j.lease_owner = NULL, j.leased_until = NULL,
    j.final_url_id = IF(s.final_url = u.normalized_url, u.id, NULL), j.document_url = s.final_url,
    j.content_snapshot_id = c.id, j.content_type = s.content_type,
    -- A 304 need not repeat its validators: those that it confirmed stay good.
    j.etag = IF(s.outcome = 'not_modified', COALESCE(s.etag, p.etag), s.etag),
    j.last_modified = IF(s.outcome = 'not_modified', COALESCE(s.last_modified, p.last_modified), s.last_modified),
    j.response_headers = s.response_headers, j.response_time_ms = s.elapsed_ms,
    j.failure_code = IF(s.reason IN ('ok', 'not_modified'), NULL, s.reason), j.detail = s.detail,
    j.robots_version = s.robots_version, j.wire_bytes = s.wire_bytes, j.body_bytes = s.body_bytes;

UPDATE page_content_snapshots AS c
JOIN stage_results AS s ON s.content_hash = c.content_hash
SET c.last_referenced_at = GREATEST(c.last_referenced_at, %(now)s),
    c.retention_until = GREATEST(COALESCE(c.retention_until, %(until)s), %(until)s);

-- The page's estimated interval between changes: exponential average, weight 0.3, of the time from one seen change to the next.
-- (As an upsert, because an UPDATE over a join does not say in which order it assigns.)
INSERT INTO url_revalidation_state (source_url_id, fetch_profile_hash, latest_fetch_job_id, last_body_job_id, last_validated_at,
                                    consecutive_failures, last_content_hash, last_changed_at, change_interval_ema_s, changes_seen)
SELECT * FROM (
  SELECT r.source_url_id, r.fetch_profile_hash, j.id AS job_id,
         IF(j.content_snapshot_id IS NOT NULL, j.id, r.last_body_job_id) AS body_job_id,
         IF(s.outcome IN ('fetched', 'not_modified', 'gone'), s.fetched_at, r.last_validated_at) AS validated_at,
         CASE WHEN s.outcome IN ('fetched', 'not_modified', 'gone') THEN 0
              WHEN s.outcome = 'deferred' THEN r.consecutive_failures
              ELSE LEAST(r.consecutive_failures + 1, 60000) END AS failures,
         COALESCE(s.content_hash, r.last_content_hash) AS content_hash,
         IF(s.content_hash IS NOT NULL AND NOT (r.last_content_hash <=> s.content_hash), s.fetched_at, r.last_changed_at) AS changed_at,
         IF(COALESCE(s.content_hash <> r.last_content_hash, FALSE) AND r.last_changed_at < s.fetched_at,
            IF(r.change_interval_ema_s IS NULL, TIMESTAMPDIFF(SECOND, r.last_changed_at, s.fetched_at),
               0.3 * TIMESTAMPDIFF(SECOND, r.last_changed_at, s.fetched_at) + 0.7 * r.change_interval_ema_s),
            r.change_interval_ema_s) AS ema_s,
         r.changes_seen + COALESCE(s.content_hash <> r.last_content_hash, 0) AS changes_seen
  FROM stage_results AS s
  JOIN url_revalidation_state AS r ON r.source_url_id = s.source_url_id AND r.fetch_profile_hash = %(profile)s
  JOIN page_fetch_jobs AS j ON j.id = s.fetch_job_id
  WHERE r.last_validated_at IS NULL OR r.last_validated_at <= s.fetched_at
  ORDER BY r.source_url_id) AS new
ON DUPLICATE KEY UPDATE
  latest_fetch_job_id = new.job_id, last_body_job_id = new.body_job_id, last_validated_at = new.validated_at,
  consecutive_failures = new.failures, last_content_hash = new.content_hash, last_changed_at = new.changed_at,
  change_interval_ema_s = new.ema_s, changes_seen = new.changes_seen;

UPDATE crawl_pages AS g
JOIN crawl_page_fetch_consumers AS k ON k.crawl_page_id = g.id
JOIN stage_results AS s ON s.fetch_job_id = k.page_fetch_job_id
SET g.status = 'waiting_parse', g.attempts = GREATEST(g.attempts, s.attempt)
WHERE g.status = 'waiting_fetch' AND s.outcome <> 'deferred';

-- Every tenant that wanted the page had a check done; the network was used once, on account of the first.
INSERT INTO tenant_crawl_usage_daily (tenant_id, usage_date, page_checks_completed, network_fetches, bytes_downloaded)
SELECT * FROM (
  SELECT n.tenant_id, %(today)s AS usage_date, COUNT(*) AS checks, SUM(n.is_first) AS fetches, SUM(IF(n.is_first, n.wire_bytes, 0)) AS bytes
  FROM (SELECT DISTINCT g.tenant_id, s.fetch_job_id, s.wire_bytes,
               g.tenant_id = FIRST_VALUE(g.tenant_id) OVER (PARTITION BY s.fetch_job_id ORDER BY g.id) AS is_first
        FROM stage_results AS s
        JOIN crawl_page_fetch_consumers AS k ON k.page_fetch_job_id = s.fetch_job_id
        JOIN crawl_pages AS g ON g.id = k.crawl_page_id
        WHERE s.outcome <> 'deferred') AS n
  GROUP BY n.tenant_id
  ORDER BY n.tenant_id) AS new
ON DUPLICATE KEY UPDATE
  page_checks_completed = page_checks_completed + new.checks, network_fetches = network_fetches + new.fetches,
  bytes_downloaded = bytes_downloaded + new.bytes;
