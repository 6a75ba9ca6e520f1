-- Edges of URLs that have no identity any more and are still checked.
(SELECT e.id FROM url_identity_changes AS c JOIN backlinks AS e ON e.source_url_id = c.url_id
 WHERE c.to_version = %(version)s AND c.verdict = 'refused' AND c.applied_at IS NULL AND e.is_active = TRUE AND c.url_id <= %(upto)s LIMIT %(budget)s)
UNION
(SELECT e.id FROM url_identity_changes AS c JOIN backlinks AS e ON e.target_url_id = c.url_id
 WHERE c.to_version = %(version)s AND c.verdict = 'refused' AND c.applied_at IS NULL AND e.is_active = TRUE AND c.url_id <= %(upto)s LIMIT %(budget)s);
