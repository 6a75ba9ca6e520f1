SELECT g.tenant_id, g.project_id, b.id, g.crawl_run_id, g.id, b.source_url_id,
       COALESCE(sc.new_url, su.normalized_url), COALESCE(sc.new_hash, su.url_hash), sd.registrable_domain,
       b.target_url_id, COALESCE(tc.new_url, tu.normalized_url), COALESCE(tc.new_hash, tu.url_hash), b.any_target, b.current_state = 'live', b.is_redirected
FROM page_fetch_jobs AS j
JOIN crawl_page_fetch_consumers AS k ON k.page_fetch_job_id = j.id
JOIN crawl_pages AS g ON g.id = k.crawl_page_id
JOIN backlinks AS b ON b.project_id = g.project_id AND b.source_url_id = g.source_url_id
JOIN urls AS su ON su.id = b.source_url_id
JOIN domains AS sd ON sd.id = su.domain_id
JOIN urls AS tu ON tu.id = b.target_url_id
-- Names under the ledger's version of the rules, also while its rows are still being rewritten.
LEFT JOIN url_identity_changes AS sc ON sc.url_id = su.id AND sc.to_version = %(identity_version)s
LEFT JOIN url_identity_changes AS tc ON tc.url_id = tu.id AND tc.to_version = %(identity_version)s
WHERE j.validation_window = %(start)s AND j.bucket IN ({buckets}) AND j.fetch_profile_hash = %(profile)s AND b.is_active = TRUE
  -- An edge that was heard of later is no part of an earlier window: claiming that again must not add to history.
  AND b.first_seen_at < %(end)s
  -- No link can be found for a URL that has no identity any more: that would look like a loss.
  AND COALESCE(sc.verdict, '') <> 'refused' AND COALESCE(tc.verdict, '') <> 'refused'
ORDER BY b.source_url_id, b.id;
