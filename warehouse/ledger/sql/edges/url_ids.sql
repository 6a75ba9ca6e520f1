SELECT s.url_hash, COALESCE(s.url_id, u.id) FROM stage_urls AS s LEFT JOIN urls AS u ON s.url_id IS NULL AND u.url_hash = s.url_hash;
