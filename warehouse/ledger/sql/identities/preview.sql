SELECT p.url_id, p.old_url, p.new_url, p.reason,
       CASE WHEN p.new_hash IS NULL THEN 'refused'
            WHEN COALESCE(b.id, MIN(p.url_id) OVER (PARTITION BY p.new_hash)) = p.url_id THEN 'renamed'
            ELSE 'merged' END AS verdict
FROM stage_preview AS p
LEFT JOIN urls AS b ON b.url_hash = UNHEX(SHA2(CONCAT('url:v', {from}, ':', p.new_url), 256));
