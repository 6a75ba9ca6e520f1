SELECT j.id, j.validation_window, j.status, j.outcome, j.failure_code, j.detail, j.fetched_at, j.http_status, j.document_url,
       j.is_confirmation, j.attempts, j.robots_version, j.response_time_ms, s.content_hash, s.object_key, s.status
FROM (SELECT %(source_url_id)s AS id UNION SELECT c.url_id FROM url_identity_changes AS c WHERE c.survivor_id = %(source_url_id)s) AS n
STRAIGHT_JOIN page_fetch_jobs AS j ON j.source_url_id = n.id -- also those of spellings that were merged into it
LEFT JOIN page_content_snapshots AS s ON s.id = j.content_snapshot_id
ORDER BY j.validation_window DESC, j.id DESC LIMIT %(limit)s;
