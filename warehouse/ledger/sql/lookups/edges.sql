SELECT b.id, su.normalized_url, tu.normalized_url, sd.registrable_domain, b.any_target, b.current_state, b.last_evidence, b.last_reason,
       b.follow, b.anchor_text, b.placement, b.link_count, b.rel_nofollow, b.rel_ugc, b.rel_sponsored, b.is_image_link, b.is_redirected,
       b.source_fetch_health, b.source_http_status, b.source_robots_indexable, b.target_fetch_health, b.target_http_status,
       b.target_robots_indexable, b.consecutive_failures, b.first_seen_at, b.last_checked_at, b.last_seen_live_at, b.lost_at,
       b.next_check_at, b.confirm_not_before, b.state_version
FROM backlinks AS b
JOIN urls AS su ON su.id = b.source_url_id
JOIN domains AS sd ON sd.id = su.domain_id
JOIN urls AS tu ON tu.id = b.target_url_id
LEFT JOIN stage_ids AS s ON s.id = b.id
WHERE b.project_id = %(project_id)s AND b.id > %(after)s AND (%(state)s IS NULL OR b.current_state = %(state)s)
  AND (%(all)s OR s.id IS NOT NULL)
ORDER BY b.id LIMIT %(limit)s;
