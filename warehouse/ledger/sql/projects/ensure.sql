INSERT INTO projects (id, tenant_id, name, recrawl_interval_seconds, is_strict, next_crawl_at)
VALUES (%(id)s, %(tenant_id)s, %(name)s, COALESCE(%(interval)s, 86400), COALESCE(%(is_strict)s, FALSE), %(now)s)
ON DUPLICATE KEY UPDATE
  recrawl_interval_seconds = COALESCE(%(interval)s, recrawl_interval_seconds),
  is_strict = COALESCE(%(is_strict)s, is_strict);
