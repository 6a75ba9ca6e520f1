INSERT INTO page_content_snapshots (content_hash, object_key, status, storage_encoding, uncompressed_bytes, stored_bytes,
                                    retention_until, last_referenced_at)
SELECT s.content_hash, s.object_key, 'pending', 'zstd', s.uncompressed_bytes, s.stored_bytes, %(until)s, %(now)s
FROM stage_snapshots AS s
ORDER BY s.content_hash
ON DUPLICATE KEY UPDATE id = page_content_snapshots.id;
