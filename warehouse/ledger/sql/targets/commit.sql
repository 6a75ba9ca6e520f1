UPDATE target_validation_jobs AS j
JOIN stage_health AS s ON j.coalescing_key = UNHEX(SHA2(CONCAT(s.target_url_id, ':', %(window_key)s), 256))
LEFT JOIN urls AS u ON u.id = s.target_url_id
SET j.status = CASE WHEN s.outcome IN ('fetched', 'not_modified', 'gone') THEN 'completed'
                    WHEN s.outcome = 'deferred' THEN 'queued' ELSE 'failed' END,
    j.outcome = s.outcome, j.health = s.health, j.validated_at = s.checked_at, j.http_status = s.http_status,
    j.final_url = s.final_url, j.final_url_id = IF(s.final_url = u.normalized_url, u.id, NULL), j.is_redirected = s.is_redirected,
    j.canonical_url = s.canonical_url, j.canonical_url_id = IF(s.canonical_url = u.normalized_url, u.id, NULL),
    j.robots_indexable = s.robots_indexable, j.response_time_ms = s.elapsed_ms,
    j.failure_code = IF(s.reason IN ('ok', 'not_modified'), NULL, s.reason), j.attempts = j.attempts + 1,
    j.lease_owner = NULL, j.leased_until = NULL;

INSERT INTO target_revalidation_state (target_url_id, bucket, next_check_at, latest_job_id, last_validated_at, consecutive_failures)
SELECT * FROM (
  SELECT r.target_url_id, r.bucket,
         TIMESTAMPADD(SECOND, IF(s.health = 'ok', %(interval)s,
           LEAST(%(retry_from)s * POW(2, LEAST(r.consecutive_failures, 20)), %(retry_to)s, %(interval)s)), s.checked_at) AS next_check_at,
         j.id AS job_id, s.checked_at, IF(s.health = 'ok', 0, LEAST(r.consecutive_failures + 1, 60000)) AS failures
  FROM stage_health AS s
  JOIN target_revalidation_state AS r ON r.target_url_id = s.target_url_id
  JOIN target_validation_jobs AS j ON j.coalescing_key = UNHEX(SHA2(CONCAT(s.target_url_id, ':', %(window_key)s), 256))
  WHERE r.last_validated_at IS NULL OR r.last_validated_at <= s.checked_at
  ORDER BY r.target_url_id) AS new
ON DUPLICATE KEY UPDATE
  next_check_at = new.next_check_at, latest_job_id = new.job_id, last_validated_at = new.checked_at, consecutive_failures = new.failures;
