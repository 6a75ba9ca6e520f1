UPDATE backlinks AS b
SET b.is_active = %(active)s
WHERE b.project_id = %(project_id)s AND b.is_active <> %(active)s
  AND (%(active)s = FALSE
       OR NOT EXISTS (SELECT 1 FROM backlink_target_matches AS m WHERE m.backlink_id = b.id)
       OR EXISTS (SELECT 1 FROM backlink_target_matches AS m WHERE m.backlink_id = b.id AND m.is_active = TRUE))
LIMIT %(batch)s;
