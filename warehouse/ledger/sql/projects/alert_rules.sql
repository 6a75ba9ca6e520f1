SELECT r.id, p.tenant_id, r.project_id, r.name, CAST(r.event_types AS CHAR), CAST(r.filters AS CHAR), CAST(r.channels AS CHAR), r.cooldown_seconds
FROM alert_rules AS r
JOIN projects AS p ON p.id = r.project_id
WHERE r.is_active = TRUE AND r.retired_at IS NULL AND p.is_active = TRUE
  AND (%(project_ids)s IS NULL OR p.id IN (
        SELECT UNHEX(j.id) FROM JSON_TABLE(%(project_ids)s, '$[*]' COLUMNS (id CHAR(32) PATH '$')) AS j))
ORDER BY r.project_id, r.id;
