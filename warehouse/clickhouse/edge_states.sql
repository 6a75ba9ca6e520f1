-- The rows of `transforms.schemas.EDGE_STATES` that a window makes: the state after each of its observations, and after
-- each later observation of the same edges that was folded together with them, because a late or corrected window changes
-- what comes after it. (All rows of one fold of an edge have the same fold_version.)
WITH
window_rows AS
(
    -- every version of an observation has the same window_start, so the newest one is found without FINAL
    SELECT *
    FROM edge_history
    WHERE window_start >= {start:DateTime64(6, 'UTC')} AND window_start < {end:DateTime64(6, 'UTC')}
    ORDER BY fold_version DESC
    LIMIT 1 BY project_id, backlink_id, observation_id
),
latest AS
(
    SELECT project_id, backlink_id, observation_id
    FROM edge_current FINAL
    WHERE (project_id, backlink_id) IN (SELECT project_id, backlink_id FROM window_rows)
),
late_edges AS
(
    SELECT project_id, backlink_id, max(fold_version) AS folded
    FROM window_rows
    GROUP BY project_id, backlink_id
    HAVING (project_id, backlink_id) NOT IN (
        SELECT project_id, backlink_id FROM latest
        WHERE (project_id, backlink_id, observation_id) IN (SELECT project_id, backlink_id, observation_id FROM window_rows)
    )
),
rows AS
(
    SELECT * FROM window_rows
    UNION ALL
    SELECT *
    FROM edge_history FINAL
    WHERE (project_id, backlink_id) IN (SELECT project_id, backlink_id FROM late_edges)
      AND (project_id, backlink_id, fold_version) IN (SELECT project_id, backlink_id, folded FROM late_edges)
      AND NOT (window_start >= {start:DateTime64(6, 'UTC')} AND window_start < {end:DateTime64(6, 'UTC')})
)
SELECT
    backlink_id,
    tenant_id,
    project_id,
    observation_id,
    idempotency_key,
    observed_at,
    toString(state) AS state,
    toString(event) AS event,
    changes,
    misses,
    first_miss_at,
    ever_live,
    last_live_at,
    lost_at,
    (project_id, backlink_id, observation_id) IN (SELECT project_id, backlink_id, observation_id FROM latest) AS is_latest,
    state_version
FROM rows
ORDER BY project_id, backlink_id, observed_at, rows.observation_id
