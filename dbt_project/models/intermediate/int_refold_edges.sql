{{ config(
    engine="MergeTree()",
    order_by="(project_id, backlink_id)",
    pre_hook="{{ catch_up_edge_current(thorough=true) }}",
) }}
-- The edges that this window has observations of, and from where each must be folded.
-- An ordinary edge goes on from its current state. A late edge has history at or after its first row of this window, or
-- has rows of this window already (a rerun, a correction): it is folded again from the earliest of these rows to its end.
{% set history = adapter.get_relation(database=this.database, schema=this.schema, identifier='edge_history') %}
{% set current = adapter.get_relation(database=this.database, schema=this.schema, identifier='edge_current') %}

with window_edges as (
    select project_id, backlink_id, min({{ position() }}) as first_row
    from (
        select project_id, backlink_id, observed_at, observation_id
        from {{ source('backlinks', 'link_observations') }}
        where {{ in_window('window_start') }}
        order by ingest_version desc
        limit 1 by observation_id
    )
    group by project_id, backlink_id
)

{% if history is none or current is none %}

select
    project_id,
    backlink_id,
    true as is_late,
    first_row.1 as refold_observed_at,
    first_row.2 as refold_observation_id
from window_edges
where false

{% else %}

, folded_before as (
    -- rows that were replaced since are as good here: they can only move the start of the fold to an earlier row
    select project_id, backlink_id, min({{ position() }}) as first_row
    from {{ history }}
    where {{ in_window('window_start') }}
    group by project_id, backlink_id
)

, latest as (
    select project_id, backlink_id, {{ position() }} as last_row
    from {{ current }} final
    where (project_id, backlink_id) in (select project_id, backlink_id from window_edges)
)

, positions as (
    select
        window_edges.project_id as project_id,
        window_edges.backlink_id as backlink_id,
        folded_before.first_row.2 != 0 or (latest.last_row.2 != 0 and latest.last_row >= window_edges.first_row) as is_late,
        if(folded_before.first_row.2 != 0, least(window_edges.first_row, folded_before.first_row), window_edges.first_row) as refold_from
    from window_edges
    left join folded_before
        on window_edges.project_id = folded_before.project_id and window_edges.backlink_id = folded_before.backlink_id
    left join latest
        on window_edges.project_id = latest.project_id and window_edges.backlink_id = latest.backlink_id
)

select
    project_id,
    backlink_id,
    toBool(is_late) as is_late,
    refold_from.1 as refold_observed_at,
    refold_from.2 as refold_observation_id
from positions

{% endif %}
