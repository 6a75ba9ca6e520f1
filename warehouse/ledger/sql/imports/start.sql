INSERT INTO import_runs (id, tenant_id, project_id, provider, status, file_name, file_format, created_at)
SELECT %(id)s, tenant_id, id, %(provider)s, 'running', %(file_name)s, %(file_format)s, %(now)s
FROM projects WHERE id = %(project_id)s
ON DUPLICATE KEY UPDATE status = 'running';
