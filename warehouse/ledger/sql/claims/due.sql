SELECT j.source_url_id, COALESCE(c.new_url, u.normalized_url), COALESCE(c.new_hash, u.url_hash), d.registrable_domain, j.id, j.priority, COALESCE(j.due_at, j.available_at),
       j.is_confirmation, 0, NULL, 1,
       s.content_hash, s.object_key,
       IF(s.id IS NULL, NULL, COALESCE(p.document_url, u.normalized_url)), IF(s.id IS NULL, NULL, p.content_type),
       -- A body that was cut is asked for again in full: a 304 would make a page of it that looks complete.
       IF(s.id IS NULL OR p.failure_code = 'body_truncated', NULL, p.etag),
       IF(s.id IS NULL OR p.failure_code = 'body_truncated', NULL, p.last_modified),
       IF(s.id IS NULL, NULL, p.response_headers),
       j.good_link_count, j.good_text_bytes, j.collapsed_looks, j.collapsed_since
FROM page_fetch_jobs AS j
JOIN urls AS u ON u.id = j.source_url_id
JOIN domains AS d ON d.id = u.domain_id
LEFT JOIN url_identity_changes AS c ON c.url_id = u.id AND c.to_version = %(identity_version)s
LEFT JOIN page_fetch_jobs AS p ON p.id = j.prior_job_id
LEFT JOIN page_content_snapshots AS s ON s.id = p.content_snapshot_id AND s.status = 'available'
WHERE j.validation_window = %(start)s AND j.bucket IN ({buckets}) AND j.fetch_profile_hash = %(profile)s
ORDER BY j.source_url_id;
