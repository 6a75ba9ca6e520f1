UPDATE url_identity_changes AS c
JOIN (SELECT b.source_url_id AS url_id, COUNT(*) AS edges FROM stage_stopped AS s JOIN backlinks AS b ON b.id = s.id GROUP BY b.source_url_id) AS n
  ON n.url_id = c.url_id
SET c.edges = c.edges + n.edges
WHERE c.to_version = %(version)s AND c.verdict = 'refused';

UPDATE url_identity_changes AS c
JOIN (SELECT b.target_url_id AS url_id, COUNT(*) AS edges FROM stage_stopped AS s JOIN backlinks AS b ON b.id = s.id GROUP BY b.target_url_id) AS n
  ON n.url_id = c.url_id
SET c.edges = c.edges + n.edges
WHERE c.to_version = %(version)s AND c.verdict = 'refused';

UPDATE backlinks AS b
JOIN stage_stopped AS s ON s.id = b.id
SET b.is_active = FALSE;
