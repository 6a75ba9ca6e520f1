INSERT INTO audit_log (at, actor, action, tenant_id, subject, detail)
VALUES (%(now)s, %(actor)s, 'project.deleted', %(tenant_id)s, %(subject)s, %(detail)s);
