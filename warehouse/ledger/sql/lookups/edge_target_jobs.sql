SELECT j.id, j.validation_window, j.validated_at, j.health, j.outcome, j.failure_code, j.http_status, j.final_url, j.robots_indexable, j.priority
FROM target_validation_jobs AS j
WHERE j.target_url_id = %(target_url_id)s
ORDER BY j.validation_window DESC, j.id DESC LIMIT %(limit)s;
