SELECT e.alert_rule_id, e.backlink_id, e.event_type, e.observation_id, e.occurred_at
FROM stage_ids AS s
JOIN alert_events AS e ON e.backlink_id = s.backlink_id
WHERE e.occurred_at >= %(since)s AND e.retracted_at IS NULL
ORDER BY e.backlink_id, e.occurred_at;
