{{ config(
    materialized="incremental",
    incremental_strategy="append",
    engine="ReplacingMergeTree(fold_version)",
    order_by="(project_id, backlink_id)",
) }}
-- The last row of each edge's history: where the next window's fold goes on from.
{% if is_incremental() %}
{{ latest_rows(ref('edge_history'), this) }}
{% else %}
select *
from {{ ref('edge_history') }} final
where (project_id, backlink_id, observation_id) in (
    -- narrow rows decide which wide ones are read
    select project_id, backlink_id, max({{ position() }}).2
    from {{ ref('edge_history') }} final
    group by project_id, backlink_id
)
{% endif %}
