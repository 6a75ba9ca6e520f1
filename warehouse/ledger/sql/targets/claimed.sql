SELECT j.target_url_id, u.normalized_url, d.registrable_domain, j.id
FROM target_validation_jobs AS j
JOIN urls AS u ON u.id = j.target_url_id
JOIN domains AS d ON d.id = u.domain_id
WHERE j.validation_window = %(start)s AND j.bucket IN ({buckets})
ORDER BY j.target_url_id;
