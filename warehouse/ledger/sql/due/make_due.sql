UPDATE backlinks AS b
SET b.next_check_at = LEAST(b.next_check_at, %(now)s)
WHERE b.project_id = %(project)s AND b.is_active = TRUE AND b.confirm_not_before IS NULL;

UPDATE backlinks AS b
SET b.next_check_at = LEAST(b.next_check_at, b.confirm_not_before)
WHERE b.project_id = %(project)s AND b.is_active = TRUE AND b.confirm_not_before IS NOT NULL;

UPDATE target_revalidation_state AS r
JOIN (SELECT DISTINCT target_url_id FROM backlinks WHERE project_id = %(project)s AND is_active = TRUE) AS t
  ON t.target_url_id = r.target_url_id
SET r.next_check_at = LEAST(r.next_check_at, %(now)s)
WHERE r.is_active = TRUE
