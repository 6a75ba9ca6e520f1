SELECT DISTINCT p.manifest_id, s.content_hash, p.document_url, p.parser_version, p.status, p.reason, p.links_found, p.is_truncated,
       p.link_manifest_key
FROM page_fetch_jobs AS j
JOIN page_content_snapshots AS s ON s.id = j.content_snapshot_id
JOIN page_parse_results AS p ON p.content_snapshot_id = s.id
WHERE j.source_url_id = %(source_url_id)s
ORDER BY 4 DESC, 1 LIMIT %(limit)s;
