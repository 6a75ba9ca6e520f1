UPDATE stage_urls AS s
JOIN urls AS u ON u.url_hash = s.url_hash
SET s.url_id = u.id;
