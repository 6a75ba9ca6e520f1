UPDATE {queue} AS q
JOIN stage_ids AS s ON q.id = s.id
SET q.status = 'leased', q.lease_owner = %(token)s, q.leased_until = %(until)s, q.attempts = q.attempts + 1;
