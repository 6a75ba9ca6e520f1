SELECT id FROM alert_rules
WHERE project_id = %(project_id)s AND name = %(name)s AND retired_at IS NULL
ORDER BY id LIMIT 1 FOR UPDATE;
