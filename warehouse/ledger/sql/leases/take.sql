UPDATE shard_leases
SET owner = %(owner)s, fence = fence + 1, acquired_at = %(now)s, leased_until = %(until)s
WHERE name = %(name)s;
