SELECT p.id, p.tenant_id, p.name, p.is_active, COUNT(b.id),
       COALESCE(SUM(b.current_state = 'live'), 0), COALESCE(SUM(b.current_state = 'lost'), 0), COALESCE(SUM(b.current_state = 'unknown'), 0),
       COALESCE(SUM(b.is_active AND b.next_check_at <= %(now)s AND (b.confirm_not_before IS NULL OR b.confirm_not_before <= %(now)s)), 0),
       COALESCE(SUM(b.is_active AND b.confirm_not_before IS NOT NULL), 0),
       COALESCE(SUM(b.source_fetch_health = 'blocked'), 0), COALESCE(SUM(b.source_fetch_health = 'error'), 0),
       COALESCE(SUM(b.is_active AND b.last_checked_at IS NULL), 0),
       COALESCE(SUM(b.is_active AND b.first_seen_at < %(week_ago)s AND (b.last_checked_at IS NULL OR b.last_checked_at < %(week_ago)s)), 0),
       MAX(b.last_checked_at), MIN(IF(b.is_active AND b.next_check_at <= %(now)s, b.next_check_at, NULL))
FROM projects AS p
LEFT JOIN backlinks AS b ON b.project_id = p.id
WHERE %(tenant_id)s IS NULL OR p.tenant_id = %(tenant_id)s
GROUP BY p.id, p.tenant_id, p.name, p.is_active
ORDER BY p.name, p.id;
