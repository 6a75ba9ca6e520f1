-- The promise, checked against the evidence itself and not against what the fold counted: an edge is LOST only by a
-- complete miss, with another one at least `confirmation_minutes` before it, both after the last time it was found, and
-- only when it had been found. Looks at what the newest fold wrote; with `check_all_history: true`, at everything.
with lost as (
    select project_id, backlink_id, {{ position() }} as lost_row
    from {{ ref('edge_history') }} final
    where event = 'lost'
      {%- if not var('check_all_history', false) %}
      and fold_version >= (select max(fold_version) from {{ ref('edge_current') }})
      {%- endif %}
)

, judged as (
    select
        lost.project_id as project_id,
        lost.backlink_id as backlink_id,
        lost.lost_row as lost_row,
        countIf(evidence.evidence = 'found' and evidence.row < lost.lost_row) as times_found,
        maxIf(evidence.row, evidence.evidence = 'found' and evidence.row < lost.lost_row) as last_found,
        groupArrayIf(
            evidence.row, evidence.evidence = 'missing' and evidence.evidence_complete and evidence.row <= lost.lost_row
        ) as complete_misses
    from lost
    inner join (
        select project_id, backlink_id, evidence, evidence_complete, {{ position() }} as row
        from {{ ref('stg_link_observations') }}
        where (project_id, backlink_id) in (select project_id, backlink_id from lost)
    ) as evidence
        on lost.project_id = evidence.project_id and lost.backlink_id = evidence.backlink_id
    group by project_id, backlink_id, lost_row
)

select *, arrayFilter(miss -> miss > last_found, complete_misses) as open_misses
from judged
where not (
    times_found > 0
    and has(open_misses, lost_row)
    and arrayExists(miss -> miss.1 + interval {{ var('confirmation_minutes') }} minute <= lost_row.1, open_misses)
)
