SELECT j.id, j.validation_window, j.validated_at, j.health, j.outcome, j.failure_code, j.http_status, j.final_url, j.robots_indexable, j.priority
FROM (SELECT %(target_url_id)s AS id UNION SELECT c.url_id FROM url_identity_changes AS c WHERE c.survivor_id = %(target_url_id)s) AS n
STRAIGHT_JOIN target_validation_jobs AS j ON j.target_url_id = n.id
ORDER BY j.validation_window DESC, j.id DESC LIMIT %(limit)s;
