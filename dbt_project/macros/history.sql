{# What edge_history and edge_current share. #}

{# A hash of what the fold says of a row: equal means that folding again changed nothing. What the row holds besides follows
   from these: its own evidence from (observation_id, ingest_version), the link as last found from state_version, which
   rises with every correction up to here. Nothing in it may be NULL: the hash of a NULL depends on what lies beneath it. #}
{% macro row_hash() -%}
    cityHash64(
        observation_id, ingest_version, observed_at, state, event, changes, misses, ever_live, state_version,
        known_properties
        {%- for at in ['first_miss_at', 'first_live_at', 'last_live_at', 'lost_at'] %},
        ifNull(toUnixTimestamp64Micro({{ at }}), 0)
        {%- endfor %}
    )
{%- endmacro %}

{# The last row of each edge that edge_history has folded and edge_current does not hold yet. A fold writes an edge through
   to its end, so the last row of an edge's newest fold is the edge's last row.
   The newest fold is looked at again, edge by edge: a run that was killed may have written a part of either table.
   thorough: take the last row from the whole history of these edges, for the same reason. #}
{% macro latest_rows(history, current, thorough=false) %}
    {%- set fresh -%}
        fold_version >= (select max(fold_version) from {{ current }})
        and (project_id, backlink_id, fold_version) not in (
            select project_id, backlink_id, fold_version
            from {{ current }}
            where fold_version = (select max(fold_version) from {{ current }})
        )
    {%- endset -%}
    select *
    from {{ history }}{{ ' final' if thorough }}
    where {% if thorough -%}
        (project_id, backlink_id) in (select project_id, backlink_id from {{ history }} where {{ fresh }})
    {%- else -%}
        {{ fresh }}
    {%- endif %}
    order by {{ 'fold_version desc, ' if not thorough }}observed_at desc, observation_id desc
    limit 1 by project_id, backlink_id
{% endmacro %}

{# After a run that was killed between the two models edge_current is behind edge_history. Bring it up before folding on. #}
{% macro catch_up_edge_current(thorough=false) %}
{%- if execute -%}
    {%- set history = adapter.get_relation(database=this.database, schema=this.schema, identifier='edge_history') -%}
    {%- set current = adapter.get_relation(database=this.database, schema=this.schema, identifier='edge_current') -%}
    {%- if history is not none and current is not none -%}
        insert into {{ current }} {{ latest_rows(history, current, thorough) }}
    {%- else -%}
        select 1
    {%- endif -%}
{%- endif -%}
{% endmacro %}
