UPDATE stage_edges AS s
JOIN backlinks AS b ON b.project_id = s.project_id AND b.source_url_id = s.source_url_id AND b.target_url_id = s.target_url_id
SET s.backlink_id = b.id;
