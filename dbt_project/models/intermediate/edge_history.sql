{{ config(
    materialized="incremental",
    incremental_strategy="append",
    engine="ReplacingMergeTree(fold_version)",
    order_by="(project_id, backlink_id, observation_id)",
    partition_by="toYYYYMM(observed_at)",
    query_settings={"optimize_aggregation_in_order": 1},
) }}
-- One row per observation: the evidence, and the state of its edge after it. See the macro `fold` for the rules.
-- Facts lie in the order of edges: aggregation in order keeps the memory of a full fold to a few edges at a time.
-- depends_on: {{ ref('stg_link_observations') }}, {{ ref('int_refold_edges') }}, {{ ref('int_refold_observations') }}
{% if not is_incremental() %}

select
    *,
    {{ row_hash() }} as row_hash,
    toUInt64(toUnixTimestamp64Micro(now64(6))) as fold_version
from ({{ fold(ref('stg_link_observations')) }})

{% else %}
{% set current = adapter.get_relation(database=this.database, schema=this.schema, identifier='edge_current') %}

with base as (
    {% if current is not none %}
    select *
    from {{ current }} final
    where (project_id, backlink_id) in (select project_id, backlink_id from {{ ref('int_refold_edges') }} where not is_late)

    union all
    {% endif %}

    select history.*
    from (
        select *
        from {{ this }} final
        where (project_id, backlink_id) in (select project_id, backlink_id from {{ ref('int_refold_edges') }} where is_late)
    ) as history
    inner join {{ ref('int_refold_edges') }} as edge
        on history.project_id = edge.project_id and history.backlink_id = edge.backlink_id
    where {{ position('history.') }} < (edge.refold_observed_at, edge.refold_observation_id)
    order by history.observed_at desc, history.observation_id desc
    limit 1 by history.project_id, history.backlink_id
)

, folded as (
    select *, {{ row_hash() }} as row_hash
    from ({{ fold(ref('int_refold_observations'), 'base') }})
)

, compared as (
    -- an edge whose rows all come out as they are is not written again
    select
        folded.*,
        countIf(folded.row_hash != stored.row_hash) over (partition by folded.project_id, folded.backlink_id) as differing_rows
    from folded
    left join (
        select project_id, backlink_id, observation_id, row_hash
        from {{ this }} final
        where (project_id, backlink_id) in (select project_id, backlink_id from {{ ref('int_refold_edges') }} where is_late)
    ) as stored
        on folded.project_id = stored.project_id
        and folded.backlink_id = stored.backlink_id
        and folded.observation_id = stored.observation_id
)

select
    * except (differing_rows),
    (
        select greatest(max(fold_version) + 1, toUInt64(toUnixTimestamp64Micro(now64(6))))
        from {{ current if current is not none else this }}
    ) as fold_version
from compared
where differing_rows > 0
{% endif %}
