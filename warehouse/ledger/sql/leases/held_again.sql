UPDATE shard_leases SET server_started_at = %(server_started_at)s
WHERE name = %(name)s AND fence = %(fence)s AND owner IS NOT NULL;
