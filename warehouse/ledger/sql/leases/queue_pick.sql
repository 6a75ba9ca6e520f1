SELECT id FROM {queue}
WHERE status = '{waiting}' AND available_at <= %(now)s
ORDER BY {order} LIMIT %(limit)s
FOR UPDATE SKIP LOCKED;
