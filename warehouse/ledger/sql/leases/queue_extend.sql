UPDATE {queue} AS q
JOIN stage_ids AS s ON q.id = s.id
SET q.leased_until = %(until)s
WHERE q.status = 'leased' AND q.lease_owner = %(token)s;
