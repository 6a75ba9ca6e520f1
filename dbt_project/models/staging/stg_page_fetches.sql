select
    *,
    domain(source_url) as source_host,
    toDate(fetched_at) as fetch_date
from {{ source('backlinks', 'page_fetches') }} final
