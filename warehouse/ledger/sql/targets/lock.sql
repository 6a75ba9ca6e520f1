INSERT INTO stage_targets (target_url_id)
SELECT r.target_url_id
FROM target_revalidation_state AS r FORCE INDEX (target_revalidation_due_idx)
WHERE r.bucket IN ({buckets}) AND r.is_active = TRUE AND r.next_check_at < %(end)s
LIMIT %(batch)s
FOR UPDATE SKIP LOCKED;
