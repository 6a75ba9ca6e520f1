SELECT e.event_type, r.name, e.occurred_at, e.retracted_at, e.aggregate_delivery_status, d.channel, d.destination, d.status, d.attempts,
       e.observation_id
FROM alert_events AS e
LEFT JOIN alert_rules AS r ON r.id = e.alert_rule_id
LEFT JOIN alert_deliveries AS d ON d.alert_event_id = e.id
WHERE e.project_id = %(project_id)s AND e.backlink_id = %(backlink_id)s
ORDER BY e.occurred_at DESC, e.id, d.id LIMIT %(limit)s;
