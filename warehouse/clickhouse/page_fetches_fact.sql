-- One row per source and window: what the network answered. Loaded again, the newer row replaces.
CREATE TABLE IF NOT EXISTS page_fetches_fact
(
    {columns}
)
ENGINE = ReplacingMergeTree(ingest_version)
PARTITION BY toYYYYMM(window_start)
ORDER BY (window_start, source_url_id)
COMMENT {comment}
