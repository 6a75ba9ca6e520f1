SELECT t.id
FROM stage_targets AS s
JOIN project_targets AS t ON t.project_id = %(project_id)s AND t.active_target_key = s.target_key
ORDER BY s.position;
