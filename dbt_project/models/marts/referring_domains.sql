-- The domains that link, or linked, to a project.
select
    project_id,
    source_registrable_domain as referring_domain,
    count() as edges,
    countIf(state = 'live') as live_backlinks,
    countIf(state = 'lost' and ever_live) as lost_backlinks,
    countIf(state = 'live' and seen_follow = 'follow') as live_followed,
    min(first_live_at) as first_seen_at,
    max(last_live_at) as last_seen_at,
    max(observed_at) as last_checked_at
from {{ ref('edge_current') }} final
group by project_id, source_registrable_domain
