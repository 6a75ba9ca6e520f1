-- Every row of edge_history follows from the row before it by the rules, one step at a time: a second statement of the
-- fold, without arrays. Looks at the edges of the newest fold; with `check_all_history: true`, at everything.
with steps as (
    select
        project_id, backlink_id, observed_at, observation_id, evidence, state, event, misses, ever_live, state_version,
        evidence = 'missing' and evidence_complete as is_miss,
        lagInFrame(toString(state), 1, 'unknown') over edge as state_before,
        lagInFrame(misses, 1, 0) over edge as misses_before,
        lagInFrame(ever_live, 1, false) over edge as ever_live_before,
        lagInFrame(state_version, 1, 0) over edge as version_before,
        lagInFrame(first_miss_at) over edge as first_miss_before
    from {{ ref('edge_history') }} final
    {%- if not var('check_all_history', false) %}
    where (project_id, backlink_id) in (
        select project_id, backlink_id
        from {{ ref('edge_current') }}
        where fold_version >= (select max(fold_version) from {{ ref('edge_current') }})
    )
    {%- endif %}
    window edge as (
        partition by project_id, backlink_id order by observed_at, observation_id
        rows between unbounded preceding and current row
    )
)

, expected as (
    select
        *,
        is_miss and misses_before >= 1
            and observed_at >= first_miss_before + interval {{ var('confirmation_minutes') }} minute as confirms_loss,
        multiIf(evidence = 'found', 'live', confirms_loss, 'lost', state_before) as expected_state,
        multiIf(evidence = 'found', 0, is_miss, least(misses_before + 1, 255), misses_before) as expected_misses,
        multiIf(
            evidence = 'found' and not ever_live_before, 'new',
            evidence = 'found' and state_before = 'lost', 'recovered',
            confirms_loss and state_before = 'live', 'lost',
            'none'
        ) as expected_event
    from steps
)

select *
from expected
where toString(state) != expected_state
   or misses != expected_misses
   or toString(event) != expected_event
   or ever_live != (ever_live_before or evidence = 'found')
   or state_version < version_before
