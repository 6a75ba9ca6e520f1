SELECT t.id, t.scope, t.include_subdomains, d.hostname, CASE t.scope WHEN 'url_prefix' THEN t.url_prefix WHEN 'exact_url' THEN u.normalized_url END
FROM project_targets AS t
LEFT JOIN urls AS u ON u.id = t.url_id
JOIN domains AS d ON d.id = COALESCE(t.domain_id, u.domain_id)
WHERE t.deleted_at IS NULL
ORDER BY t.created_at, t.id;
