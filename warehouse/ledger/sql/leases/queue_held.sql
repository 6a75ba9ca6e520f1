SELECT COUNT(*) FROM {queue} AS q JOIN stage_ids AS s ON q.id = s.id WHERE q.status = 'leased' AND q.lease_owner = %(token)s;
