UPDATE target_revalidation_state AS r
JOIN url_identity_changes AS c ON c.url_id = r.target_url_id
SET r.is_active = FALSE
WHERE c.to_version = %(version)s AND c.verdict = 'refused' AND c.applied_at IS NULL AND c.url_id <= %(upto)s;

INSERT INTO audit_log (at, actor, action, subject, detail)
SELECT %(now)s, %(actor)s, 'url.refused', CONCAT('url ', c.url_id),
       JSON_OBJECT('identity_version', c.to_version, 'url', c.old_url, 'reason', c.reason, 'edges', c.edges)
FROM url_identity_changes AS c
WHERE c.to_version = %(version)s AND c.verdict = 'refused' AND c.applied_at IS NULL AND c.url_id <= %(upto)s
ORDER BY c.url_id;

UPDATE url_identity_changes AS c
SET c.applied_at = %(now)s
WHERE c.to_version = %(version)s AND c.verdict = 'refused' AND c.applied_at IS NULL AND c.url_id <= %(upto)s;
