-- How much of what a window checked could be decided, and what stood in the way.
select
    project_id,
    window_start,
    count() as edges_checked,
    countIf(evidence != 'none') as edges_decided,
    edges_decided / edges_checked as decided_share,
    countIf(evidence = 'none' and source_fetch_health = 'blocked') as undecided_blocked,
    countIf(evidence = 'none' and source_fetch_health = 'error') as undecided_failed,
    countIf(evidence = 'none' and source_fetch_health not in ('blocked', 'error')) as undecided_other,
    topKIf(3)(evidence_reason, evidence = 'none') as commonest_reasons
from {{ ref('edge_history') }} final
group by project_id, window_start
