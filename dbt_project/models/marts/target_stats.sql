-- What each monitored target of a project has. An edge counts for every target rule that it matches.
select
    project_id,
    arrayJoin(target_rule_ids) as project_target_id,
    count() as edges,
    countIf(state = 'live') as live_backlinks,
    countIf(state = 'lost' and ever_live) as lost_backlinks,
    uniqExactIf(source_registrable_domain, state = 'live') as referring_domains,
    countIf(state = 'live' and target_fetch_health in ('error', 'blocked')) as live_on_unhealthy_target
from {{ ref('edge_current') }} final
group by project_id, project_target_id
