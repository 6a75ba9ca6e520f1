SELECT DISTINCT o.origin
FROM stage_origins AS o
JOIN suppressions AS s
  ON (s.scope = 'origin' AND s.value_hash = UNHEX(SHA2(o.origin, 256)))
  OR (s.scope = 'host' AND s.value_hash = UNHEX(SHA2(o.host, 256)))
  OR (s.scope = 'registrable_domain' AND s.value_hash = UNHEX(SHA2(o.site, 256)))
WHERE s.lifted_at IS NULL;
