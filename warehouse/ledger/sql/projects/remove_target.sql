UPDATE project_targets
SET deleted_at = %(now)s, is_active = FALSE
WHERE project_id = %(project_id)s AND id = %(target_id)s AND deleted_at IS NULL;

UPDATE backlink_target_matches
SET is_active = FALSE, ended_at = %(now)s
WHERE project_id = %(project_id)s AND project_target_id = %(target_id)s AND is_active = TRUE;

UPDATE backlinks AS b
JOIN backlink_target_matches AS gone ON gone.backlink_id = b.id AND gone.project_target_id = %(target_id)s
SET b.is_active = FALSE
WHERE b.project_id = %(project_id)s AND b.is_active = TRUE
  AND NOT EXISTS (SELECT 1 FROM backlink_target_matches AS m WHERE m.backlink_id = b.id AND m.is_active = TRUE);
