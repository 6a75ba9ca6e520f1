SELECT p.id, p.name, b.id, b.source_url_id, b.target_url_id
FROM backlinks AS b
JOIN projects AS p ON p.id = b.project_id
WHERE b.source_url_id = %(source_url_id)s AND b.target_url_id = %(target_url_id)s AND (%(project_id)s IS NULL OR p.id = %(project_id)s)
ORDER BY p.name, p.id;
