-- What the write-back to MySQL reads (`warehouse.clickhouse.read_edge_states` filters by window): a state per observation.
select
    backlink_id,
    tenant_id,
    project_id,
    observation_id,
    idempotency_key,
    window_start,
    observed_at,
    state,
    event,
    changes,
    misses,
    first_miss_at,
    ever_live,
    last_live_at,
    lost_at,
    (project_id, backlink_id, observation_id) in (
        select project_id, backlink_id, observation_id from {{ ref('edge_current') }} final
    ) as is_latest,
    state_version
from {{ ref('edge_history') }} final
