SELECT u.tenant_id
FROM tenant_crawl_usage_daily AS u
JOIN tenant_crawl_limits AS l ON l.tenant_id = u.tenant_id
WHERE u.usage_date = %(today)s AND u.page_checks_reserved > l.daily_page_check_limit
  AND u.tenant_id IN (SELECT c.tenant_id FROM stage_consumers AS c WHERE c.is_new = 1 AND c.is_due = 1)
LIMIT 1;
