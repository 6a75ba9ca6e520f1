-- How fetching went, by host and UTC day.
select
    fetch_date,
    source_host,
    any(registrable_domain) as registrable_domain,
    outcome,
    reason,
    count() as fetches,
    countIf(validation_method = 'not_modified') as not_modified,
    sum(wire_bytes) as wire_bytes,
    sum(body_bytes) as body_bytes,
    quantileExact(0.5)(elapsed_ms) as median_ms,
    quantileExact(0.95)(elapsed_ms) as p95_ms
from {{ ref('stg_page_fetches') }}
group by fetch_date, source_host, outcome, reason
