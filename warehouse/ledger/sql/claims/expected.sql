SELECT g.tenant_id, g.project_id, b.id, g.crawl_run_id, g.id, b.source_url_id,
       su.normalized_url, su.url_hash, sd.registrable_domain,
       b.target_url_id, tu.normalized_url, tu.url_hash, b.any_target, b.current_state = 'live'
FROM page_fetch_jobs AS j
JOIN crawl_page_fetch_consumers AS k ON k.page_fetch_job_id = j.id
JOIN crawl_pages AS g ON g.id = k.crawl_page_id
JOIN backlinks AS b ON b.project_id = g.project_id AND b.source_url_id = g.source_url_id
JOIN urls AS su ON su.id = b.source_url_id
JOIN domains AS sd ON sd.id = su.domain_id
JOIN urls AS tu ON tu.id = b.target_url_id
WHERE j.validation_window = %(start)s AND j.bucket IN ({buckets}) AND j.fetch_profile_hash = %(profile)s AND b.is_active = TRUE
  -- An edge that was heard of later is no part of an earlier window: claiming that again must not add to history.
  AND b.first_seen_at < %(end)s
ORDER BY b.source_url_id, b.id;
