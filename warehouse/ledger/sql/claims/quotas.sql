-- What each limited tenant may still claim: today's checks, and jobs under way.
SELECT l.tenant_id, l.scheduler_weight,
       LEAST(CAST(l.daily_page_check_limit AS SIGNED) - CAST(COALESCE(u.page_checks_reserved, 0) AS SIGNED),
             CAST(l.max_active_jobs AS SIGNED) - (
               SELECT COUNT(*) FROM crawl_runs AS r JOIN crawl_pages AS c ON c.crawl_run_id = r.id
               WHERE r.tenant_id = l.tenant_id AND r.status = 'running' AND c.status NOT IN ('completed', 'failed')))
FROM tenant_crawl_limits AS l
LEFT JOIN tenant_crawl_usage_daily AS u ON u.tenant_id = l.tenant_id AND u.usage_date = %(today)s;
