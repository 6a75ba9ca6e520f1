UPDATE shard_leases
SET owner = %(owner)s, fence = fence + 1, acquired_at = %(now)s, leased_until = %(until)s,
    server_started_at = %(server_started_at)s
WHERE name = %(name)s;
