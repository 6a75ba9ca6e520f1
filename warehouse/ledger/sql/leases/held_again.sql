UPDATE shard_leases SET server_started_at = %(server_started_at)s WHERE name = %(name)s;
