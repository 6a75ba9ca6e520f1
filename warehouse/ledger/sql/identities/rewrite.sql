-- Which of the planned URLs stays: the one that is spelled so already, else the oldest.
UPDATE stage_planned AS s
LEFT JOIN urls AS a ON a.url_hash = s.new_hash
LEFT JOIN urls AS b ON b.url_hash = UNHEX(SHA2(CONCAT('url:v', %(from_version)s, ':', s.new_url), 256))
SET s.survivor_id = COALESCE(a.id, b.id, s.survivor_id);

UPDATE url_identity_changes AS c
JOIN stage_planned AS s ON s.url_id = c.url_id
SET c.verdict = 'merged', c.survivor_id = s.survivor_id
WHERE c.to_version = %(version)s AND s.survivor_id <> s.url_id;

INSERT INTO domains (hostname, registrable_domain, public_suffix)
SELECT s.host, MIN(s.registrable_domain), MIN(s.public_suffix)
FROM stage_planned AS s
LEFT JOIN domains AS d ON d.hostname = s.host
WHERE d.id IS NULL AND s.survivor_id = s.url_id
GROUP BY s.host
ORDER BY s.host
ON DUPLICATE KEY UPDATE id = domains.id;

UPDATE urls AS u
JOIN stage_planned AS s ON s.url_id = u.id AND s.survivor_id = s.url_id
JOIN domains AS d ON d.hostname = s.host
SET u.normalized_url = s.new_url, u.url_hash = s.new_hash, u.normalization_version = %(version)s, u.domain_id = d.id,
    u.scheme = SUBSTRING_INDEX(s.new_url, ':', 1),
    u.path = SUBSTRING_INDEX(SUBSTR(s.new_url, LOCATE('/', s.new_url, LOCATE('://', s.new_url) + 3)), '?', 1),
    u.query_string = IF(LOCATE('?', s.new_url) = 0, NULL, SUBSTR(s.new_url, LOCATE('?', s.new_url) + 1));

-- Another host may lie in another shard.
UPDATE backlinks AS b
JOIN stage_planned AS s ON s.url_id = b.source_url_id AND s.survivor_id = s.url_id
JOIN domains AS d ON d.hostname = s.host
SET b.source_bucket = d.bucket
WHERE b.source_bucket <> d.bucket;

UPDATE target_revalidation_state AS r
JOIN stage_planned AS s ON s.url_id = r.target_url_id AND s.survivor_id = s.url_id
JOIN domains AS d ON d.hostname = s.host
SET r.bucket = d.bucket
WHERE r.bucket <> d.bucket;

UPDATE url_identity_changes AS c
JOIN stage_planned AS s ON s.url_id = c.url_id AND s.survivor_id = s.url_id
SET c.verdict = 'renamed', c.applied_at = %(now)s
WHERE c.to_version = %(version)s;
