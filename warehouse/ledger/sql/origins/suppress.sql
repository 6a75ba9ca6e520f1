INSERT INTO suppressions (id, scope, value, reason, verified_by, created_at)
VALUES (%(id)s, %(scope)s, %(value)s, %(reason)s, %(verified_by)s, %(now)s)
ON DUPLICATE KEY UPDATE lifted_at = NULL, reason = %(reason)s, verified_by = %(verified_by)s;

INSERT INTO audit_log (at, actor, action, subject, detail)
VALUES (%(now)s, %(actor)s, 'suppressed', LEFT(CONCAT(%(scope)s, ' ', %(value)s), 512), JSON_OBJECT('reason', %(reason)s));
