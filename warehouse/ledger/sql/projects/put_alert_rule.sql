INSERT INTO alert_rules (id, project_id, name, event_types, filters, channels, cooldown_seconds)
VALUES (%(id)s, %(project_id)s, %(name)s, %(event_types)s, %(filters)s, %(channels)s, %(cooldown)s) AS new
ON DUPLICATE KEY UPDATE
  event_types = new.event_types, filters = new.filters, channels = new.channels,
  cooldown_seconds = new.cooldown_seconds, is_active = TRUE;
