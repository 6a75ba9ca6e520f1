-- Nothing of the window is left out: each of its observations has its row in edge_history, folded at its newest version.
select observation.project_id, observation.backlink_id, observation.observation_id, observation.ingest_version
from {{ ref('stg_link_observations') }} as observation
left anti join (
    select project_id, backlink_id, observation_id, ingest_version
    from {{ ref('edge_history') }} final
) as history
    on observation.project_id = history.project_id
    and observation.backlink_id = history.backlink_id
    and observation.observation_id = history.observation_id
    and observation.ingest_version = history.ingest_version
where {{ in_window('observation.window_start') }}
