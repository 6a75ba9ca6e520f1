SELECT c.url_id, c.survivor_id
FROM stage_ids AS s
JOIN url_identity_changes AS c ON c.url_id = s.id AND c.to_version = %(version)s AND c.verdict = 'merged';
