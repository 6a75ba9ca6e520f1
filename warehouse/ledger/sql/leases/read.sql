SELECT owner, fence, leased_until, server_started_at FROM shard_leases WHERE name = %(name)s FOR UPDATE;
