-- Every observation of every edge. The newest ingest_version of an observation is the one that counts; a correction
-- (a reparse, a refetch) has the same observation_id and a higher version.
--
-- The blueprint sorts by (project_id, observation_id). An observation belongs to one edge for ever, so backlink_id in
-- between keeps the same identity and lays an edge's history side by side, which the fold and `explain` read.
CREATE TABLE IF NOT EXISTS backlink_observations_fact
(
    {columns},
    -- a window's rows: old months are skipped without being read
    INDEX window_start_range window_start TYPE minmax GRANULARITY 16
)
ENGINE = ReplacingMergeTree(ingest_version)
PARTITION BY toYYYYMM(observed_at)
ORDER BY (project_id, backlink_id, observation_id)
SETTINGS index_granularity = 8192
COMMENT {comment}
