SELECT b.id, b.source_url_id, p.recrawl_interval_seconds, COALESCE(r.consecutive_failures, 0), r.last_changed_at, r.change_interval_ema_s,
       COALESCE(r.changes_seen, 0), b.check_priority, LEAST(b.consecutive_failures, 255)
FROM stage_ids AS s
JOIN backlinks AS b ON b.id = s.backlink_id
JOIN projects AS p ON p.id = b.project_id
LEFT JOIN url_revalidation_state AS r ON r.source_url_id = b.source_url_id
ORDER BY b.id;
