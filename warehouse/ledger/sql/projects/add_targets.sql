UPDATE project_targets AS t
SET t.is_primary = FALSE
WHERE t.project_id = %(project_id)s AND t.is_primary = TRUE AND t.deleted_at IS NULL
  AND (SELECT MAX(s.is_primary) FROM stage_targets AS s) = 1;

INSERT INTO project_targets (id, project_id, scope, domain_id, url_id, url_prefix, target_key, include_subdomains, created_at)
SELECT s.id, %(project_id)s, s.scope, u.domain_id,
       IF(s.scope = 'exact_url', s.url_id, NULL), IF(s.scope = 'url_prefix', s.url, NULL),
       s.target_key, s.include_subdomains, %(now)s
FROM stage_targets AS s
JOIN urls AS u ON u.id = s.url_id
LEFT JOIN project_targets AS t ON t.project_id = %(project_id)s AND t.active_target_key = s.target_key
WHERE t.id IS NULL
ORDER BY s.position
ON DUPLICATE KEY UPDATE id = project_targets.id;

UPDATE project_targets AS t
JOIN stage_targets AS s ON t.active_target_key = s.target_key
SET t.is_primary = TRUE
WHERE t.project_id = %(project_id)s AND s.is_primary = 1;

INSERT INTO target_revalidation_state (target_url_id, bucket, next_check_at)
SELECT DISTINCT s.url_id, d.bucket, %(now)s
FROM stage_targets AS s
JOIN urls AS u ON u.id = s.url_id
JOIN domains AS d ON d.id = u.domain_id
WHERE s.scope = 'exact_url'
ON DUPLICATE KEY UPDATE is_active = TRUE;
