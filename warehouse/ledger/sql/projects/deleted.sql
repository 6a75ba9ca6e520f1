INSERT INTO transactional_outbox (id, event_key, topic, partition_key, payload, available_at)
VALUES (%(id)s, %(event_key)s, 'deletion-events', %(tenant_id)s, %(payload)s, %(now)s)
ON DUPLICATE KEY UPDATE id = transactional_outbox.id;
