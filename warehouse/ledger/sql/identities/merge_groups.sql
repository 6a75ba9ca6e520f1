-- Edges that are one: the oldest id stays, and stands as the one that was decided and checked last.
SELECT b.id, m.project_id, m.source_url_id, m.target_url_id, b.source_url_id AS old_source_id, b.target_url_id AS old_target_id,
       COUNT(*) OVER edge AS members, MIN(b.id) OVER edge AS keep_id,
       FIRST_VALUE(b.id) OVER (PARTITION BY m.project_id, m.source_url_id, m.target_url_id
                               ORDER BY b.current_state <> 'unknown' DESC, b.last_checked_at DESC, b.id) AS newest_id,
       MIN(b.first_seen_at) OVER edge AS first_seen_at, MAX(b.ever_live) OVER edge AS ever_live,
       MAX(b.last_seen_live_at) OVER edge AS last_seen_live_at, MIN(b.next_check_at) OVER edge AS next_check_at,
       MAX(b.check_priority) OVER edge AS check_priority, MAX(b.is_active) OVER edge AS is_active,
       MAX(b.any_target) OVER edge AS any_target, MAX(b.state_version) OVER edge AS state_version
FROM stage_movers AS m
JOIN backlinks AS b ON b.id = m.id
WINDOW edge AS (PARTITION BY m.project_id, m.source_url_id, m.target_url_id);
