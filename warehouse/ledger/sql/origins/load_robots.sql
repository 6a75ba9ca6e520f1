SELECT o.origin, o.version, o.status_class, o.body, o.fetched_at, o.expires_at, o.last_good_at
FROM stage_origins AS s JOIN robots_cache AS o ON o.origin = s.origin;
