SELECT id, tenant_id, name, recrawl_interval_seconds, is_strict, is_active
FROM projects WHERE %(tenant_id)s IS NULL OR tenant_id = %(tenant_id)s ORDER BY name, id;
