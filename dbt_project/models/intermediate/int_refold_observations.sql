{{ config(
    engine="MergeTree()",
    order_by="(project_id, backlink_id, observed_at, observation_id)",
) }}
-- The observations that this run folds: the window's own for ordinary edges, everything from the start of the refold on
-- for late ones.
{% set columns = (['project_id', 'backlink_id'] + observation_columns() + link_columns()) | join(', ') %}

select {{ columns }}
from {{ source('backlinks', 'link_observations') }}
where {{ in_window('window_start') }}
  and (project_id, backlink_id) in (select project_id, backlink_id from {{ ref('int_refold_edges') }} where not is_late)
order by ingest_version desc
limit 1 by project_id, backlink_id, observation_id

union all

select {{ columns }}
from (
    -- the newest version first, then the position: an older version may lie elsewhere
    select {{ columns }}
    from {{ source('backlinks', 'link_observations') }}
    where (project_id, backlink_id) in (select project_id, backlink_id from {{ ref('int_refold_edges') }} where is_late)
    order by ingest_version desc
    limit 1 by project_id, backlink_id, observation_id
) as observation
inner join {{ ref('int_refold_edges') }} as edge using (project_id, backlink_id)
where {{ position() }} >= (refold_observed_at, refold_observation_id)
