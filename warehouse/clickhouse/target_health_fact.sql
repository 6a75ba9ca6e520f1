-- One row per monitored target URL and window. Sorted by target: `target_health_as_of` looks targets up.
CREATE TABLE IF NOT EXISTS target_health_fact
(
    {columns}
)
ENGINE = ReplacingMergeTree(ingest_version)
PARTITION BY toYYYYMM(window_start)
ORDER BY (target_url_id, window_start)
COMMENT {comment}
