SELECT p.id, p.name, b.id, b.source_url_id, b.target_url_id
FROM urls AS su
JOIN urls AS tu ON tu.url_hash = %(target_hash)s
JOIN backlinks AS b ON b.source_url_id = su.id AND b.target_url_id = tu.id
JOIN projects AS p ON p.id = b.project_id
WHERE su.url_hash = %(source_hash)s AND (%(project_id)s IS NULL OR p.id = %(project_id)s)
ORDER BY p.name, p.id;
