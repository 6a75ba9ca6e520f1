-- Hosts first, in key order so that two imports cannot wait for each other in a circle.
INSERT INTO domains (hostname, registrable_domain, public_suffix)
SELECT s.host, MIN(s.registrable_domain), MIN(s.public_suffix)
FROM stage_urls AS s
LEFT JOIN domains AS d ON d.hostname = s.host
WHERE s.url_id IS NULL AND d.id IS NULL
GROUP BY s.host
ORDER BY s.host
ON DUPLICATE KEY UPDATE id = domains.id;

INSERT INTO urls (domain_id, normalized_url, normalization_version, url_hash, scheme, path, query_string)
SELECT d.id, s.url, %(version)s, s.url_hash, s.scheme, s.path, s.query_string
FROM stage_urls AS s
JOIN domains AS d ON d.hostname = s.host
WHERE s.url_id IS NULL
ORDER BY s.url_hash
ON DUPLICATE KEY UPDATE id = urls.id;
