UPDATE alert_rules
SET is_active = FALSE, retired_at = %(now)s
WHERE project_id = %(project)s AND id = %(id)s AND retired_at IS NULL;
