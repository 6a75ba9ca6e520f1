-- The URLs whose edges have all gone over: what else pointed at them follows. Jobs and pages keep naming the spelling that was
-- fetched.
UPDATE url_revalidation_state AS r
JOIN url_identity_changes AS c ON c.survivor_id = r.source_url_id AND c.to_version = %(version)s AND c.applied_at IS NULL
JOIN url_revalidation_state AS l ON l.source_url_id = c.url_id AND l.fetch_profile_hash = r.fetch_profile_hash
SET r.latest_fetch_job_id = l.latest_fetch_job_id, r.last_body_job_id = l.last_body_job_id, r.last_validated_at = l.last_validated_at,
    r.consecutive_failures = l.consecutive_failures, r.last_content_hash = l.last_content_hash, r.last_changed_at = l.last_changed_at,
    r.change_interval_ema_s = l.change_interval_ema_s, r.changes_seen = l.changes_seen
WHERE r.last_validated_at IS NULL AND l.last_validated_at IS NOT NULL;

DELETE r FROM url_revalidation_state AS r
JOIN url_identity_changes AS c ON c.url_id = r.source_url_id
WHERE c.to_version = %(version)s AND c.verdict = 'merged' AND c.applied_at IS NULL;

DELETE r FROM target_revalidation_state AS r
JOIN url_identity_changes AS c ON c.url_id = r.target_url_id
WHERE c.to_version = %(version)s AND c.verdict = 'merged' AND c.applied_at IS NULL;

UPDATE backlinks AS b
JOIN url_identity_changes AS c ON c.url_id = b.final_target_url_id
SET b.final_target_url_id = c.survivor_id
WHERE c.to_version = %(version)s AND c.verdict = 'merged' AND c.applied_at IS NULL;

UPDATE project_targets AS t
JOIN url_identity_changes AS c ON c.url_id = t.url_id
SET t.url_id = c.survivor_id
WHERE c.to_version = %(version)s AND c.verdict = 'merged' AND c.applied_at IS NULL;

INSERT INTO audit_log (at, actor, action, subject, detail)
SELECT %(now)s, %(actor)s, 'url.merged', CONCAT('url ', c.url_id, ' into ', c.survivor_id),
       JSON_OBJECT('identity_version', c.to_version, 'old_url', c.old_url, 'new_url', c.new_url, 'edges', c.edges)
FROM url_identity_changes AS c
WHERE c.to_version = %(version)s AND c.verdict = 'merged' AND c.applied_at IS NULL
ORDER BY c.url_id;

UPDATE url_identity_changes AS c
SET c.applied_at = %(now)s
WHERE c.to_version = %(version)s AND c.verdict = 'merged' AND c.applied_at IS NULL;
