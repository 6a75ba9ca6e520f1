SELECT s.url_hash, u.id FROM stage_urls AS s JOIN urls AS u ON u.url_hash = s.url_hash;
