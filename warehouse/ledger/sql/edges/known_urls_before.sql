-- While a migration rewrites: URLs that still have their hash of the version before, and those whose new name is planned.
UPDATE stage_urls AS s
JOIN urls AS u ON u.url_hash = UNHEX(SHA2(CONCAT('url:v', %(from_version)s, ':', s.url), 256))
SET s.url_id = u.id
WHERE s.url_id IS NULL;

UPDATE stage_urls AS s
SET s.url_id = (SELECT MIN(c.url_id) FROM url_identity_changes AS c
                WHERE c.to_version = %(version)s AND c.new_hash = s.url_hash AND c.verdict = 'planned')
WHERE s.url_id IS NULL;
