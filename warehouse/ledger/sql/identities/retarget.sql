INSERT INTO domains (hostname, registrable_domain, public_suffix)
SELECT s.host, MIN(s.registrable_domain), MIN(s.public_suffix)
FROM stage_targets AS s
LEFT JOIN domains AS d ON d.hostname = s.host
WHERE d.id IS NULL
GROUP BY s.host
ORDER BY s.host
ON DUPLICATE KEY UPDATE id = domains.id;

-- Two rules that are one now: the later one is retired, unless another one was written that way from the start.
UPDATE IGNORE backlink_target_matches AS m
JOIN stage_targets AS s ON s.id = m.project_target_id
JOIN project_targets AS o ON o.project_id = m.project_id AND o.active_target_key = s.target_key AND o.id <> s.id
SET m.project_target_id = o.id;

UPDATE project_targets AS t
JOIN stage_targets AS s ON s.id = t.id
JOIN project_targets AS o ON o.project_id = t.project_id AND o.active_target_key = s.target_key AND o.id <> t.id
SET t.deleted_at = %(now)s, t.is_active = FALSE;

UPDATE project_targets AS o
JOIN stage_targets AS s
JOIN project_targets AS t ON t.id = s.id AND t.project_id = o.project_id AND t.is_primary = TRUE AND t.deleted_at IS NOT NULL
SET o.is_primary = TRUE
WHERE o.active_target_key = s.target_key;

UPDATE project_targets AS t
JOIN stage_targets AS s ON s.id = t.id
JOIN domains AS d ON d.hostname = s.host
SET t.target_key = s.target_key, t.url_prefix = IF(t.scope = 'url_prefix', s.url, t.url_prefix),
    t.domain_id = IF(t.domain_id IS NULL, NULL, d.id)
WHERE t.deleted_at IS NULL;
