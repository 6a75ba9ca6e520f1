SELECT p.tenant_id, t.project_id, t.id, t.scope, d.hostname, d.registrable_domain,
       CASE t.scope WHEN 'url_prefix' THEN t.url_prefix WHEN 'exact_url' THEN COALESCE(c.new_url, u.normalized_url) END,
       t.include_subdomains, p.is_strict, t.rule_version
FROM project_targets AS t
JOIN projects AS p ON p.id = t.project_id
LEFT JOIN urls AS u ON u.id = t.url_id
LEFT JOIN url_identity_changes AS c ON c.url_id = u.id AND c.to_version = (SELECT v.version FROM url_identity_state AS v WHERE v.id = 1)
JOIN domains AS d ON d.id = COALESCE(t.domain_id, u.domain_id)
WHERE t.is_active = TRUE AND t.deleted_at IS NULL AND t.paused_at IS NULL AND p.is_active = TRUE
  AND (%(project_ids)s IS NULL OR p.id IN (
        SELECT UNHEX(j.id) FROM JSON_TABLE(%(project_ids)s, '$[*]' COLUMNS (id CHAR(32) PATH '$')) AS j))
ORDER BY t.project_id, t.id;
