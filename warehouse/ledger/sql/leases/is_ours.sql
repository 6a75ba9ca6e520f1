SELECT 1 FROM shard_leases WHERE name = %(name)s AND fence = %(fence)s AND owner IS NOT NULL;
