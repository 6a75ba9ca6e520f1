-- A project at a glance.
select
    project_id,
    count() as edges,
    countIf(state = 'live') as live_backlinks,
    countIf(state = 'lost' and ever_live) as lost_backlinks,
    countIf(state = 'lost' and not ever_live) as never_found,
    countIf(state = 'unknown') as unknown_backlinks,
    countIf(state != 'lost' and misses > 0) as confirmations_pending,
    countIf(evidence = 'none') as last_check_undecided,
    countIf(state = 'live' and seen_follow = 'follow') as live_followed,
    uniqExactIf(source_registrable_domain, state = 'live') as referring_domains,
    min(observed_at) as oldest_check_at,
    max(observed_at) as newest_check_at
from {{ ref('edge_current') }} final
group by project_id
