INSERT INTO target_validation_jobs (target_url_id, validation_window, bucket, coalescing_key, available_at)
SELECT s.target_url_id, %(start)s, r.bucket, UNHEX(SHA2(CONCAT(s.target_url_id, ':', %(window_key)s), 256)), %(now)s
FROM stage_targets AS s
JOIN target_revalidation_state AS r ON r.target_url_id = s.target_url_id
-- A target that nobody monitors any more is let go of.
WHERE EXISTS (SELECT 1 FROM backlinks AS b WHERE b.target_url_id = s.target_url_id AND b.is_active = TRUE)
   OR EXISTS (SELECT 1 FROM project_targets AS t JOIN projects AS p ON p.id = t.project_id
              WHERE t.url_id = s.target_url_id AND t.is_active = TRUE AND t.deleted_at IS NULL AND p.is_active = TRUE)
ORDER BY s.target_url_id
ON DUPLICATE KEY UPDATE id = target_validation_jobs.id;

UPDATE target_revalidation_state AS r
JOIN stage_targets AS s ON s.target_url_id = r.target_url_id
LEFT JOIN target_validation_jobs AS j ON j.coalescing_key = UNHEX(SHA2(CONCAT(s.target_url_id, ':', %(window_key)s), 256))
SET r.next_check_at = GREATEST(r.next_check_at, %(reserved_until)s), r.is_active = j.id IS NOT NULL;
