-- One row per thing that really changed: availability (new, lost, recovered) and properties of a link that is there.
select
    project_id,
    backlink_id,
    observation_id,
    observed_at,
    window_start,
    source_url,
    source_registrable_domain,
    target_url,
    arrayJoin(arrayConcat(if(event = 'none', [], [toString(event)]), changes)) as transition,
    if(transition in ('new', 'lost', 'recovered'), 'availability', 'property') as kind,
    state,
    evidence_reason as reason,
    first_miss_at,
    seen_anchor_text as anchor_text,
    seen_follow as follow,
    seen_placement as placement,
    state_version
from {{ ref('edge_history') }} final
where event != 'none' or notEmpty(changes)
