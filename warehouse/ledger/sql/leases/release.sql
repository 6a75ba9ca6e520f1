UPDATE shard_leases SET owner = NULL, leased_until = NULL WHERE name = %(name)s AND fence = %(fence)s AND owner IS NOT NULL;
