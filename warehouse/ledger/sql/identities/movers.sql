-- Edges of URLs that were merged away, as they will be.
SELECT b.id, b.project_id, COALESCE(s.survivor_id, b.source_url_id) AS source_url_id, COALESCE(t.survivor_id, b.target_url_id) AS target_url_id
FROM ((SELECT e.id FROM url_identity_changes AS c JOIN backlinks AS e ON e.source_url_id = c.url_id
       WHERE c.to_version = %(version)s AND c.verdict = 'merged' AND c.applied_at IS NULL LIMIT %(budget)s)
      UNION
      (SELECT e.id FROM url_identity_changes AS c JOIN backlinks AS e ON e.target_url_id = c.url_id
       WHERE c.to_version = %(version)s AND c.verdict = 'merged' AND c.applied_at IS NULL LIMIT %(budget)s)) AS m
JOIN backlinks AS b ON b.id = m.id
LEFT JOIN url_identity_changes AS s ON s.url_id = b.source_url_id AND s.to_version = %(version)s AND s.verdict = 'merged'
LEFT JOIN url_identity_changes AS t ON t.url_id = b.target_url_id AND t.to_version = %(version)s AND t.verdict = 'merged';
