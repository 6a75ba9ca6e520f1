{# The fold: the state of each edge after each of its observations, as a pure function of the ordered evidence.

   observations  relation with project_id, backlink_id and the columns of `observation_columns()` and `link_columns()`;
                 one row per observation (older versions already gone)
   base          relation with one row per edge, shaped like edge_history: the row that the first of these observations
                 follows. An edge without one has never been observed before.

   The rules (DESIGN.md, section 4):
     found    misses = 0; live; NEW when never live before, RECOVERED when lost
     missing  counts only when the evidence is complete. The first miss opens a confirmation; a later miss, at least
              `confirmation_minutes` after the first, makes the edge lost: LOST when it had been live, else no event
     none     changes nothing

   How: one row per edge with its observations as a sorted array. Each array below has one element more than there are
   observations: element 1 stands for the base, so that "the row before" is a shift by one and the first observation is
   like any other. `arrayFill(keep, values)` carries the last kept value onward; a found row opens a segment, in which
   misses are counted from 0. Everything is linear in the length of a history. #}
{% macro fold(observations, base=none) %}
{%- set own = observation_columns() -%}
{%- set link = link_columns() -%}
{%- set props = properties() -%}
{%- set keys_at = own | length + link | length + 1 -%}
select
    project_id,
    backlink_id,
    {%- for name in own %}
    tupleElement(observation, {{ loop.index }}) as {{ name }},
    {%- endfor %}
    {%- for name in link %}
    seen_{{ name }},
    {%- endfor %}
    CAST(multiIf(is_lost, 'lost', is_ever_live, 'live', 'unknown'), 'Enum8(\'unknown\' = 0, \'live\' = 1, \'lost\' = 2)') as state,
    CAST(
        multiIf(
            evidence = 'found' and not was_ever_live, 'new',
            evidence = 'found' and was_lost, 'recovered',
            is_lost and not was_lost and is_ever_live, 'lost',
            'none'
        ),
        'Enum8(\'none\' = 0, \'new\' = 1, \'lost\' = 2, \'recovered\' = 3)'
    ) as event,
    -- an unknown value (0) is carried over, so it can neither be a change nor hide one
    arrayFilter(
        (name, before, after) -> before != 0 and after != before,
        [{% for p in props %}'{{ p.name }}'{{ ', ' if not loop.last }}{% endfor %}],
        known_before,
        known_properties
    ) as changes,
    toUInt8(least(miss_count, 255)) as misses,
    first_miss_at,
    toBool(is_ever_live) as ever_live,
    if(is_ever_live, any_first_live_at, NULL) as first_live_at,
    last_live_at,
    lost_at,
    state_version,
    known_properties
from (
    select
        *,
        arrayFill((at, keep) -> keep,
            arrayMap((p, t, l, b) -> multiIf(p = 1, base_lost_at, l and not b, t, NULL), positions, times, lost, lost_before),
            arrayMap((o, l, b) -> o or (l and not b), opens, lost, lost_before)) as lost_times,
        arrayFill((at, o) -> o,
            arrayMap((p, t) -> if(p = 1, base_last_live_at, t), positions, times), opens) as last_live_times,
        ifNull(base_first_live_at, arrayFirst((t, o, p) -> o and p > 1, times, opens, positions)) as any_first_live_at
    from (
        select
            *,
            arrayPopBack(arrayPushFront(lost, false)) as lost_before,
            arrayPopBack(arrayPushFront(lives, false)) as lives_before
        from (
            select
                *,
                arrayFill((l, keep) -> keep,
                    arrayMap((p, l) -> if(p = 1, base_state = 'lost', l), positions, loses),
                    arrayMap((o, l) -> o or l, opens, loses)) as lost,
                arrayMap(c -> base_ever_live or c > 1, arrayCumSum(opens)) as lives
            from (
                select
                    *,
                    arrayMap((a, m, t, f) -> a and m >= 2 and ifNull(t >= f + interval {{ var('confirmation_minutes') }} minute, false),
                        absent, miss_counts, times, first_misses) as loses
                from (
                    select
                        *,
                        arrayFill((at, keep) -> keep,
                            arrayMap((p, t, a, m) -> multiIf(p = 1, base_first_miss_at, a and m = 1, t, NULL), positions, times, absent, miss_counts),
                            arrayMap((o, a, m) -> o or (a and m = 1), opens, absent, miss_counts)) as first_misses
                    from (
                        select
                            *,
                            arrayMap((total, before) -> total - before, total_misses,
                                arrayFill((total, o) -> o, arrayMap((p, total) -> if(p = 1, 0, total), positions, total_misses), opens)) as miss_counts
                        from (
                            select
                                project_id,
                                backlink_id,
                                observations,
                                arrayEnumerate(arrayPushFront(observations, observations[1])) as positions,
                                arrayPushFront(arrayMap(t -> toNullable(t), {{ all_observations('observed_at') }}), NULL) as times,
                                arrayPushFront(arrayMap(e -> e = 'found', {{ all_observations('evidence') }}), true) as opens,
                                arrayPushFront(arrayMap((e, complete) -> e = 'missing' and complete, {{ all_observations('evidence') }}, {{ all_observations('evidence_complete') }}), false) as absent,
                                arrayCumSum(arrayPushFront(
                                    arrayMap((e, complete) -> toUInt32(e = 'missing' and complete), {{ all_observations('evidence') }}, {{ all_observations('evidence_complete') }}),
                                    toUInt32(base_misses))) as total_misses,
                                arrayReduceInRanges('max', arrayMap(p -> (1, p), positions),
                                    arrayPushFront({{ all_observations('ingest_version') }}, base_state_version)) as versions,
                                arrayMap(({% for p in props %}k{{ loop.index }}{{ ', ' if not loop.last }}{% endfor %}) -> [{% for p in props %}k{{ loop.index }}{{ ', ' if not loop.last }}{% endfor %}],
                                {%- for p in props %}
                                    arrayFill(k -> k != 0, arrayPushFront(arrayMap(keys -> keys[{{ loop.index }}], tupleElement(observations, {{ keys_at }})), base_known_properties[{{ loop.index }}])){{ ',' if not loop.last }}
                                {%- endfor %}) as known,
                                {%- for name in link %}
                                base_seen_{{ name }},
                                {%- endfor %}
                                base_state, base_first_miss_at, base_ever_live, base_first_live_at, base_last_live_at, base_lost_at
                            from (
                                select project_id, backlink_id, arraySort(groupArray((
                                    {{ (own + link) | join(', ') }},
                                    [{% for p in props %}
                                        if(evidence = 'found' and {{ p.known }}, bitOr(cityHash64({{ p.value }}), 1), 0){{ ',' if not loop.last }}{% endfor %}]
                                ))) as observations
                                from {{ observations }}
                                group by project_id, backlink_id
                            ) as edges
                            {% if base is not none -%}
                            left join (
                                select
                                    project_id, backlink_id,
                                    {%- for name in link %} seen_{{ name }} as base_seen_{{ name }},{% endfor %}
                                    {%- for name in state_columns() %} {{ name }} as base_{{ name }}{{ ',' if not loop.last }}{% endfor %}
                                from {{ base }}
                            ) as base using (project_id, backlink_id)
                            {%- else -%}
                            cross join (
                                -- what an edge is before its first observation
                                select {{ nothing_seen() }}
                            ) as base
                            {%- endif %}
                        )
                    )
                )
            )
        )
    )
)
array join
    observations as observation,
    -- the link as last found; filled, not looked up by position: a lambda that captures an array copies it for each element
    {%- for name in link %}
    arrayPopFront(arrayFill((value, o) -> o, arrayPushFront({{ all_observations(name) }}, base_seen_{{ name }}), opens)) as seen_{{ name }},
    {%- endfor %}
    arrayPopFront(lost) as is_lost,
    arrayPopFront(lost_before) as was_lost,
    arrayPopFront(lives) as is_ever_live,
    arrayPopFront(lives_before) as was_ever_live,
    arrayPopFront(miss_counts) as miss_count,
    arrayPopFront(first_misses) as first_miss_at,
    arrayPopFront(last_live_times) as last_live_at,
    arrayPopFront(lost_times) as lost_at,
    arrayPopFront(versions) as state_version,
    arrayPopFront(known) as known_properties,
    arrayPopBack(known) as known_before
{% endmacro %}

{# One column of an edge's observations, as an array. #}
{% macro all_observations(name) -%}
    tupleElement(observations, {{ (observation_columns() + link_columns()).index(name) + 1 }})
{%- endmacro %}

{# The base of an edge that was never observed, with the types of edge_history. #}
{% macro nothing_seen() %}
    CAST(NULL, 'Nullable(String)') as base_seen_link_url,
    toUInt16(0) as base_seen_link_count,
    CAST([], 'Array(String)') as base_seen_tolerated,
    CAST(NULL, 'Nullable(String)') as base_seen_anchor_text,
    false as base_seen_is_image_link,
    false as base_seen_rel_nofollow,
    false as base_seen_rel_ugc,
    false as base_seen_rel_sponsored,
    CAST(NULL, 'LowCardinality(Nullable(String))') as base_seen_follow,
    false as base_seen_is_redirected,
    CAST(NULL, 'LowCardinality(Nullable(String))') as base_seen_placement,
    CAST(NULL, 'Nullable(String)') as base_seen_page_title,
    CAST(NULL, 'LowCardinality(Nullable(String))') as base_seen_html_lang,
    CAST('unknown', 'Enum8(\'unknown\' = 0, \'live\' = 1, \'lost\' = 2)') as base_state,
    toUInt8(0) as base_misses,
    CAST(NULL, 'Nullable(DateTime64(6, \'UTC\'))') as base_first_miss_at,
    false as base_ever_live,
    CAST(NULL, 'Nullable(DateTime64(6, \'UTC\'))') as base_first_live_at,
    CAST(NULL, 'Nullable(DateTime64(6, \'UTC\'))') as base_last_live_at,
    CAST(NULL, 'Nullable(DateTime64(6, \'UTC\'))') as base_lost_at,
    toUInt64(0) as base_state_version,
    CAST([], 'Array(UInt64)') as base_known_properties
{% endmacro %}
