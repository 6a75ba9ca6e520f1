-- By the server's clock: shards on several machines need not agree on the time.
SELECT o.origin, GREATEST(o.next_eligible_at, COALESCE(o.backoff_until, o.next_eligible_at))
FROM origins AS o
WHERE o.foreign_at >= TIMESTAMPADD(MICROSECOND, -CAST(%(within_s)s * 1000000 AS SIGNED), UTC_TIMESTAMP(6));
