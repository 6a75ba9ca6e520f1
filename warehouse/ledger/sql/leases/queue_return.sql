UPDATE {queue} AS q
JOIN stage_ids AS s ON q.id = s.id
SET q.status = '{waiting}', q.lease_owner = NULL, q.leased_until = NULL, q.available_at = %(available_at)s
WHERE q.status = 'leased' AND q.lease_owner = %(token)s;
