SELECT s.*, 0 AS is_fresh FROM stage_rows AS s WHERE s.is_latest = 1;
