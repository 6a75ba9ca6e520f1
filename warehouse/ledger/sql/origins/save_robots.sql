INSERT INTO robots_versions (origin, version, status_class, body, first_seen_at, last_seen_at)
SELECT s.origin, s.version, s.status_class, s.body, s.fetched_at, s.fetched_at
FROM stage_robots AS s
ORDER BY s.origin
ON DUPLICATE KEY UPDATE
  first_seen_at = LEAST(robots_versions.first_seen_at, s.fetched_at),
  last_seen_at = GREATEST(robots_versions.last_seen_at, s.fetched_at);

INSERT INTO robots_cache (origin, version, status_class, body, fetched_at, expires_at, last_good_at)
SELECT * FROM (
  SELECT s.origin, s.version, s.status_class, s.body, s.fetched_at, s.expires_at, s.last_good_at
  FROM stage_robots AS s
  LEFT JOIN robots_cache AS o ON o.origin = s.origin
  WHERE o.origin IS NULL OR o.fetched_at <= s.fetched_at
  ORDER BY s.origin) AS new
ON DUPLICATE KEY UPDATE
  version = new.version, status_class = new.status_class, body = new.body, fetched_at = new.fetched_at, expires_at = new.expires_at,
  last_good_at = new.last_good_at;
