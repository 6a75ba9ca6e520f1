SELECT j.id, j.validation_window, j.status, j.outcome, j.failure_code, j.detail, j.fetched_at, j.http_status, j.document_url,
       j.is_confirmation, j.attempts, j.robots_version, j.response_time_ms, s.content_hash, s.object_key, s.status
FROM page_fetch_jobs AS j
LEFT JOIN page_content_snapshots AS s ON s.id = j.content_snapshot_id
WHERE j.source_url_id = %(source_url_id)s
ORDER BY j.validation_window DESC, j.id DESC LIMIT %(limit)s;
