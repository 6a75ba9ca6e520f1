UPDATE urls AS u
LEFT JOIN url_identity_changes AS c ON c.url_id = u.id AND c.to_version = %(version)s
SET u.url_hash = UNHEX(SHA2(CONCAT('url:v', %(version)s, ':', u.normalized_url), 256)), u.normalization_version = %(version)s
WHERE u.id > %(after)s AND u.id <= %(upto)s AND u.normalization_version = %(from_version)s AND c.url_id IS NULL;
