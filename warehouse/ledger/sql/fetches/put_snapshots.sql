INSERT INTO page_content_snapshots (content_hash, object_key, status, content_type, storage_encoding, uncompressed_bytes, stored_bytes,
                                    retention_until, last_referenced_at)
SELECT s.content_hash, s.object_key, 'available', s.content_type, 'zstd', s.uncompressed_bytes, s.stored_bytes, %(until)s, %(now)s
FROM stage_snapshots AS s
ORDER BY s.content_hash
ON DUPLICATE KEY UPDATE
  status = 'available',
  stored_bytes = GREATEST(page_content_snapshots.stored_bytes, s.stored_bytes),
  content_type = COALESCE(page_content_snapshots.content_type, s.content_type),
  retention_until = GREATEST(COALESCE(page_content_snapshots.retention_until, %(until)s), %(until)s),
  last_referenced_at = GREATEST(page_content_snapshots.last_referenced_at, %(now)s);
