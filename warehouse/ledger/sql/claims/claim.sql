-- Under the lock of each source: who wants it, and is it still due? (Another claim may have had it before us.)
INSERT INTO stage_consumers (project_id, tenant_id, source_url_id, priority, due_at, is_due, is_confirmation, run_id, is_new)
SELECT b.project_id, p.tenant_id, b.source_url_id, MAX(b.check_priority), MIN(b.next_check_at),
       MAX(b.next_check_at < %(end)s AND (b.confirm_not_before IS NULL OR b.confirm_not_before <= %(now)s)),
       MAX(b.next_check_at < %(end)s AND b.confirm_not_before IS NOT NULL AND b.confirm_not_before <= %(now)s),
       LEFT(UNHEX(SHA2(CONCAT(LOWER(HEX(b.project_id)), ':verification:', %(window_key)s), 256)), 16), 0
FROM stage_locked AS l
STRAIGHT_JOIN backlinks AS b ON b.source_url_id = l.source_url_id
JOIN projects AS p ON p.id = b.project_id
LEFT JOIN stage_refused AS f ON f.source_url_id = b.source_url_id AND f.tenant_id = p.tenant_id
WHERE b.is_active = TRUE AND f.tenant_id IS NULL
GROUP BY b.project_id, p.tenant_id, b.source_url_id;

-- A source of which nothing is due any more is none of this claim's.
DELETE l FROM stage_locked AS l
LEFT JOIN (SELECT DISTINCT source_url_id FROM stage_consumers WHERE is_due = 1) AS d ON d.source_url_id = l.source_url_id
WHERE d.source_url_id IS NULL;

DELETE c FROM stage_consumers AS c
LEFT JOIN stage_locked AS l ON l.source_url_id = c.source_url_id
WHERE l.source_url_id IS NULL;

INSERT INTO page_fetch_jobs (source_url_id, fetch_profile_hash, validation_window, bucket, validation_deadline, coalescing_key,
                             priority, available_at, due_at, is_confirmation, prior_job_id,
                             good_link_count, good_text_bytes, collapsed_looks, collapsed_since)
SELECT c.source_url_id, %(profile)s, %(start)s, d.bucket, %(deadline)s,
       UNHEX(SHA2(CONCAT(c.source_url_id, ':', LOWER(HEX(%(profile)s)), ':', %(window_key)s), 256)),
       MAX(c.priority), %(now)s, MIN(IF(c.is_due = 1, c.due_at, NULL)), MAX(c.is_confirmation), MAX(r.last_body_job_id),
       MAX(r.good_link_count), MAX(r.good_text_bytes), MAX(r.collapsed_looks), MAX(r.collapsed_since)
FROM stage_consumers AS c
JOIN urls AS u ON u.id = c.source_url_id
JOIN domains AS d ON d.id = u.domain_id
JOIN url_revalidation_state AS r ON r.source_url_id = c.source_url_id AND r.fetch_profile_hash = %(profile)s
LEFT JOIN page_fetch_jobs AS j
  ON j.coalescing_key = UNHEX(SHA2(CONCAT(c.source_url_id, ':', LOWER(HEX(%(profile)s)), ':', %(window_key)s), 256))
WHERE j.id IS NULL
GROUP BY c.source_url_id, d.bucket
ORDER BY c.source_url_id
ON DUPLICATE KEY UPDATE id = page_fetch_jobs.id;

INSERT INTO crawl_runs (id, tenant_id, project_id, idempotency_key, run_type, status, scheduled_at, started_at)
SELECT DISTINCT c.run_id, c.tenant_id, c.project_id,
       UNHEX(SHA2(CONCAT(LOWER(HEX(c.project_id)), ':verification:', %(window_key)s), 256)), 'verification', 'running', %(start)s, %(now)s
FROM stage_consumers AS c
ORDER BY c.run_id
ON DUPLICATE KEY UPDATE id = crawl_runs.id;

UPDATE stage_consumers AS c
LEFT JOIN crawl_pages AS g ON g.crawl_run_id = c.run_id AND g.source_url_id = c.source_url_id
SET c.is_new = g.id IS NULL;

INSERT INTO crawl_pages (tenant_id, project_id, crawl_run_id, source_url_id, status, priority, available_at)
SELECT c.tenant_id, c.project_id, c.run_id, c.source_url_id, 'waiting_fetch', c.priority, %(now)s
FROM stage_consumers AS c
WHERE c.is_new = 1
ORDER BY c.run_id, c.source_url_id
ON DUPLICATE KEY UPDATE id = crawl_pages.id;

INSERT INTO crawl_page_fetch_consumers (crawl_page_id, page_fetch_job_id, required_validated_after, validation_deadline)
SELECT g.id, j.id, %(start)s, %(deadline)s
FROM stage_consumers AS c
JOIN crawl_pages AS g ON g.crawl_run_id = c.run_id AND g.source_url_id = c.source_url_id
JOIN page_fetch_jobs AS j
  ON j.coalescing_key = UNHEX(SHA2(CONCAT(c.source_url_id, ':', LOWER(HEX(%(profile)s)), ':', %(window_key)s), 256))
WHERE c.is_new = 1
ORDER BY g.id
ON DUPLICATE KEY UPDATE crawl_page_id = crawl_page_fetch_consumers.crawl_page_id;

-- The reservation: past the window, unless the edge waits for its confirmation, which keeps its time.
UPDATE stage_locked AS l
STRAIGHT_JOIN backlinks AS b ON b.source_url_id = l.source_url_id
JOIN stage_consumers AS c ON c.project_id = b.project_id AND c.source_url_id = b.source_url_id
SET b.next_check_at = GREATEST(b.next_check_at, %(reserved_until)s)
WHERE b.is_active = TRUE AND (b.confirm_not_before IS NULL OR b.confirm_not_before <= %(now)s);

-- Shared rows last: they are locked for a moment only.
UPDATE crawl_runs AS r
JOIN (SELECT run_id, COUNT(*) AS pages FROM stage_consumers WHERE is_new = 1 GROUP BY run_id) AS n ON n.run_id = r.id
SET r.pages_planned = r.pages_planned + n.pages, r.status = 'running', r.completed_at = NULL;

INSERT INTO tenant_crawl_usage_daily (tenant_id, usage_date, page_checks_reserved)
SELECT n.tenant_id, %(today)s, n.checks
FROM (SELECT tenant_id, COUNT(DISTINCT source_url_id) AS checks FROM stage_consumers
      WHERE is_new = 1 AND is_due = 1 GROUP BY tenant_id ORDER BY tenant_id) AS n
ON DUPLICATE KEY UPDATE page_checks_reserved = tenant_crawl_usage_daily.page_checks_reserved + n.checks;
