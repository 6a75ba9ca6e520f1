INSERT INTO page_parse_results (manifest_id, content_snapshot_id, base_url_id, document_url, parser_version, manifest_schema_version,
                                status, link_manifest_key, links_found, parse_complete, is_truncated, reason, failure_code, completed_at)
SELECT s.manifest_id, c.id, IF(u.normalized_url = s.document_url, u.id, NULL), s.document_url, s.parser_version, %(schema_version)s,
       IF(s.reason IN ('parse_timeout', 'parse_failed'), 'failed', 'completed'), %(key)s, s.link_count,
       s.is_truncated = 0 AND s.reason NOT IN ('parse_timeout', 'parse_failed'), s.is_truncated, s.reason,
       IF(s.reason IN ('parse_timeout', 'parse_failed'), s.reason, NULL), UTC_TIMESTAMP(6)
FROM stage_pages AS s
JOIN page_content_snapshots AS c ON c.content_hash = s.content_hash
LEFT JOIN urls AS u ON u.id = s.source_url_id
ORDER BY s.manifest_id
ON DUPLICATE KEY UPDATE
  link_manifest_key = IF(page_parse_results.status = 'failed', %(key)s, page_parse_results.link_manifest_key),
  links_found = IF(page_parse_results.status = 'failed', s.link_count, page_parse_results.links_found),
  is_truncated = IF(page_parse_results.status = 'failed', s.is_truncated, page_parse_results.is_truncated),
  parse_complete = IF(page_parse_results.status = 'failed',
                      s.is_truncated = 0 AND s.reason NOT IN ('parse_timeout', 'parse_failed'), page_parse_results.parse_complete),
  failure_code = IF(page_parse_results.status = 'failed' AND s.reason NOT IN ('parse_timeout', 'parse_failed'), NULL,
                    page_parse_results.failure_code),
  reason = IF(page_parse_results.status = 'failed', s.reason, page_parse_results.reason),
  status = IF(page_parse_results.status = 'failed' AND s.reason NOT IN ('parse_timeout', 'parse_failed'), 'completed',
              page_parse_results.status);

-- The consumers of the newest validation of each source stand on this parse.
INSERT INTO crawl_page_parse_consumers (crawl_page_id, page_parse_result_id)
SELECT k.crawl_page_id, p.id
FROM stage_consumers AS s
JOIN page_parse_results AS p ON p.manifest_id = s.manifest_id
JOIN page_fetch_jobs AS j ON j.source_url_id = s.source_url_id AND j.content_snapshot_id = p.content_snapshot_id
JOIN crawl_page_fetch_consumers AS k ON k.page_fetch_job_id = j.id
ORDER BY k.crawl_page_id
ON DUPLICATE KEY UPDATE page_parse_result_id = p.id;
