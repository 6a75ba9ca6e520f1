select *
from {{ source('backlinks', 'link_observations') }} final
