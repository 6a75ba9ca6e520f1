-- A source and a target of an edge each have a row that is locked when they are claimed.
INSERT INTO url_revalidation_state (source_url_id, fetch_profile_hash)
SELECT DISTINCT s.source_url_id, %(profile)s
FROM stage_edges AS s
LEFT JOIN url_revalidation_state AS r ON r.source_url_id = s.source_url_id AND r.fetch_profile_hash = %(profile)s
WHERE r.source_url_id IS NULL
ORDER BY s.source_url_id
ON DUPLICATE KEY UPDATE source_url_id = url_revalidation_state.source_url_id;

INSERT INTO target_revalidation_state (target_url_id, bucket, next_check_at)
SELECT DISTINCT s.target_url_id, d.bucket, %(now)s
FROM stage_edges AS s
JOIN urls AS u ON u.id = s.target_url_id
JOIN domains AS d ON d.id = u.domain_id
LEFT JOIN target_revalidation_state AS r ON r.target_url_id = s.target_url_id
WHERE r.target_url_id IS NULL
ORDER BY s.target_url_id
ON DUPLICATE KEY UPDATE target_url_id = target_revalidation_state.target_url_id;

-- A new edge falls due within its project's interval, spread by its source's hash, so that an import is no burst.
INSERT INTO backlinks (project_id, source_url_id, source_bucket, target_url_id, first_discovery_source, any_target, is_active,
                       first_seen_at, next_check_at)
SELECT s.project_id, s.source_url_id, d.bucket, s.target_url_id, %(source)s, s.any_target, p.is_active,
       %(now)s,
       IF(%(due_now)s, %(now)s, TIMESTAMPADD(SECOND,
          MOD(CAST(CONV(SUBSTR(HEX(u.url_hash), 1, 15), 16, 10) AS UNSIGNED), p.recrawl_interval_seconds), %(now)s))
FROM stage_edges AS s
JOIN projects AS p ON p.id = s.project_id
JOIN urls AS u ON u.id = s.source_url_id
JOIN domains AS d ON d.id = u.domain_id
WHERE s.backlink_id IS NULL
ORDER BY s.project_id, s.source_url_id, s.target_url_id
ON DUPLICATE KEY UPDATE id = backlinks.id;

-- Somebody asks now: a known edge is pulled forward, unless it waits for its confirmation.
UPDATE backlinks AS b
JOIN stage_edges AS s ON s.backlink_id = b.id
SET b.next_check_at = LEAST(b.next_check_at, %(now)s)
WHERE %(due_now)s AND b.confirm_not_before IS NULL;

INSERT INTO backlink_discoveries (tenant_id, project_id, backlink_id, discovery_key, source, provider,
                                  first_discovered_at, last_discovered_at)
SELECT p.tenant_id, b.project_id, b.id,
       UNHEX(SHA2(CONCAT_WS(':', b.id, %(source)s, COALESCE(%(provider)s, '')), 256)),
       %(source)s, %(provider)s, %(now)s, %(now)s
FROM stage_edges AS s
JOIN backlinks AS b ON b.project_id = s.project_id AND b.source_url_id = s.source_url_id AND b.target_url_id = s.target_url_id
JOIN projects AS p ON p.id = b.project_id
ORDER BY b.id
ON DUPLICATE KEY UPDATE last_discovered_at = GREATEST(backlink_discoveries.last_discovered_at, %(now)s);
