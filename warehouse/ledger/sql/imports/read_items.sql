SELECT line_number, result, reason, raw_source, raw_target, backlink_id
FROM import_items
WHERE import_run_id = %(id)s AND line_number > %(after)s AND (%(result)s IS NULL OR result = %(result)s)
ORDER BY line_number LIMIT %(limit)s;
