UPDATE shard_leases SET leased_until = GREATEST(leased_until, %(until)s) WHERE name = %(name)s;
