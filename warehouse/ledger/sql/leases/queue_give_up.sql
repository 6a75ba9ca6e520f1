UPDATE {queue} AS q
JOIN stage_ids AS s ON q.id = s.id
SET q.status = 'failed', q.lease_owner = NULL, q.leased_until = NULL, {code}
WHERE q.attempts >= %(max_attempts)s;
