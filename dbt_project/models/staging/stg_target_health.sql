select *
from {{ source('backlinks', 'target_health') }} final
