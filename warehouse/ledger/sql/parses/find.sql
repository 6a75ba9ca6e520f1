SELECT p.manifest_id, p.link_manifest_key, p.reason, p.links_found, p.is_truncated
FROM stage_manifests AS s
JOIN page_parse_results AS p ON p.manifest_id = s.manifest_id
WHERE p.status = 'completed' AND p.link_manifest_key IS NOT NULL;
