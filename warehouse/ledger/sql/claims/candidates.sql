SELECT b.source_url_id, p.tenant_id, MAX(b.check_priority), MIN(b.next_check_at), MAX(b.confirm_not_before IS NOT NULL)
FROM backlinks AS b FORCE INDEX (backlinks_source_due_idx)
JOIN projects AS p ON p.id = b.project_id
WHERE b.source_bucket IN ({buckets}) AND b.is_active = TRUE AND b.next_check_at < %(end)s
  AND (b.confirm_not_before IS NULL OR b.confirm_not_before <= %(now)s)
GROUP BY b.source_url_id, p.tenant_id;
