SELECT q.position, b.source_url_id, b.target_url_id
FROM stage_asked AS q
JOIN stage_sources AS s ON s.url_id = q.source_url_id
JOIN stage_targets AS t ON t.url_id = q.target_url_id
JOIN backlinks AS b ON b.project_id = q.project_id AND b.source_url_id = s.alias_id AND b.target_url_id = t.alias_id
ORDER BY q.position, b.id DESC;
