INSERT INTO import_items (import_run_id, line_number, result, reason, raw_source, raw_target, backlink_id)
SELECT %(id)s, s.line_number, s.result, s.reason, LEFT(s.raw_source, 16000), LEFT(s.raw_target, 16000), s.backlink_id
FROM stage_items AS s
ORDER BY s.line_number
ON DUPLICATE KEY UPDATE
  result = s.result, reason = s.reason, raw_source = LEFT(s.raw_source, 16000), raw_target = LEFT(s.raw_target, 16000),
  backlink_id = s.backlink_id;
