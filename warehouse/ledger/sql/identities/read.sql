SELECT u.id, u.normalized_url, u.normalization_version
FROM urls AS u
LEFT JOIN url_identity_changes AS m ON m.url_id = u.id AND m.verdict = 'merged'
WHERE u.id > %(after)s AND u.id <= %(ceiling)s AND m.url_id IS NULL
ORDER BY u.id LIMIT %(limit)s;
