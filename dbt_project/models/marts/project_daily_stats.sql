-- Observations and transitions of a project by UTC day. A view: a late or corrected window changes past days.
select
    project_id,
    toDate(observed_at) as stat_date,
    count() as observations_count,
    countIf(evidence = 'found') as found_count,
    countIf(evidence = 'missing') as missing_count,
    countIf(evidence = 'none') as undecided_count,
    countIf(event = 'new') as new_count,
    countIf(event = 'lost') as lost_count,
    countIf(event = 'recovered') as recovered_count,
    countIf(notEmpty(changes)) as changed_count,
    uniqExact(backlink_id) as edges_checked
from {{ ref('edge_history') }} final
group by project_id, stat_date
