-- While a migration rewrites: URLs of the version before whose identity is that of one of these.
SELECT s.id, c.url_id
FROM stage_ids AS s
JOIN urls AS u ON u.id = s.id
LEFT JOIN url_identity_changes AS own ON own.url_id = u.id AND own.to_version = %(version)s
JOIN url_identity_changes AS c ON c.to_version = %(version)s AND c.url_id <> s.id AND c.applied_at IS NULL
  AND c.new_hash = COALESCE(own.new_hash, IF(u.normalization_version = %(version)s, u.url_hash,
                                             UNHEX(SHA2(CONCAT('url:v', %(version)s, ':', u.normalized_url), 256))));
