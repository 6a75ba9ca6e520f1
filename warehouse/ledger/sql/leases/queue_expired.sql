SELECT id FROM {queue}
WHERE status = 'leased' AND leased_until < %(now)s
ORDER BY leased_until, id LIMIT %(batch)s
FOR UPDATE SKIP LOCKED;
