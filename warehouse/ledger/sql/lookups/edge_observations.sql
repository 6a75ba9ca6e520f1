SELECT o.id, o.observed_at, o.evidence, o.evidence_complete, o.evidence_reason, o.state, o.transition_event, o.misses, o.state_version,
       o.source_http_status, o.anchor_text, o.follow, o.link_url, o.content_hash, o.manifest_id, o.parser_version, o.page_fetch_job_id,
       CAST(o.metadata AS CHAR)
FROM backlink_observations AS o
WHERE o.backlink_id = %(backlink_id)s
ORDER BY o.observed_at DESC, o.id DESC LIMIT %(limit)s;
