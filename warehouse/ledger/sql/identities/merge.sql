-- What hangs on the edges that go. -------------------------------------------------------------------------------------

UPDATE backlink_observations AS o
JOIN stage_merge AS g ON g.id = o.backlink_id AND g.id <> g.keep_id
SET o.backlink_id = g.keep_id;

UPDATE alert_events AS e
JOIN stage_merge AS g ON g.id = e.backlink_id AND g.id <> g.keep_id
SET e.backlink_id = g.keep_id;

INSERT INTO backlink_target_matches (project_id, backlink_id, project_target_id, first_matched_at, last_matched_at, is_active, ended_at)
SELECT * FROM (
  SELECT m.project_id, g.keep_id, m.project_target_id, m.first_matched_at, m.last_matched_at, m.is_active, m.ended_at
  FROM stage_merge AS g JOIN backlink_target_matches AS m ON m.backlink_id = g.id
  WHERE g.id <> g.keep_id ORDER BY g.keep_id, m.project_target_id) AS new
ON DUPLICATE KEY UPDATE
  first_matched_at = LEAST(backlink_target_matches.first_matched_at, new.first_matched_at),
  last_matched_at = GREATEST(backlink_target_matches.last_matched_at, new.last_matched_at),
  ended_at = IF(backlink_target_matches.is_active OR new.is_active, NULL, GREATEST(backlink_target_matches.ended_at, new.ended_at)),
  is_active = GREATEST(backlink_target_matches.is_active, new.is_active);

INSERT INTO backlink_occurrences (backlink_id, occurrence_key, locator_hash, anchor_text, rel_nofollow, rel_sponsored, rel_ugc, is_image_link,
                                  placement, first_seen_at, last_seen_at, is_live, kind, link_url, locator, position, follow)
SELECT * FROM (
  SELECT g.keep_id, c.occurrence_key, c.locator_hash, c.anchor_text, c.rel_nofollow, c.rel_sponsored, c.rel_ugc, c.is_image_link, c.placement,
         c.first_seen_at, c.last_seen_at, c.is_live, c.kind, c.link_url, c.locator, c.position, c.follow
  FROM stage_merge AS g JOIN backlink_occurrences AS c ON c.backlink_id = g.id
  WHERE g.id <> g.keep_id ORDER BY g.keep_id, c.occurrence_key) AS new
ON DUPLICATE KEY UPDATE
  is_live = IF(new.last_seen_at > backlink_occurrences.last_seen_at, new.is_live, backlink_occurrences.is_live),
  first_seen_at = LEAST(backlink_occurrences.first_seen_at, new.first_seen_at),
  last_seen_at = GREATEST(backlink_occurrences.last_seen_at, new.last_seen_at);

INSERT INTO backlink_discoveries (tenant_id, project_id, backlink_id, discovery_key, source, provider, first_discovered_at, last_discovered_at)
SELECT * FROM (
  SELECT d.tenant_id, d.project_id, g.keep_id, UNHEX(SHA2(CONCAT_WS(':', g.keep_id, d.source, COALESCE(d.provider, '')), 256)) AS discovery_key,
         d.source, d.provider, d.first_discovered_at, d.last_discovered_at
  FROM stage_merge AS g JOIN backlink_discoveries AS d ON d.project_id = g.project_id AND d.backlink_id = g.id
  WHERE g.id <> g.keep_id ORDER BY g.keep_id) AS new
ON DUPLICATE KEY UPDATE
  first_discovered_at = LEAST(backlink_discoveries.first_discovered_at, new.first_discovered_at),
  last_discovered_at = GREATEST(backlink_discoveries.last_discovered_at, new.last_discovered_at);

-- The edge that stays stands as the newest of them did. ------------------------------------------------------------------

UPDATE backlinks AS k
JOIN stage_merge AS g ON g.keep_id = k.id AND g.id = g.newest_id
JOIN backlinks AS n ON n.id = g.newest_id
SET k.current_state = n.current_state, k.source_fetch_health = n.source_fetch_health, k.target_fetch_health = n.target_fetch_health,
    k.is_redirected = n.is_redirected, k.last_checked_at = n.last_checked_at, k.confirm_not_before = n.confirm_not_before,
    k.consecutive_failures = n.consecutive_failures, k.source_http_status = n.source_http_status, k.target_http_status = n.target_http_status,
    k.final_target_url_id = n.final_target_url_id, k.target_robots_indexable = n.target_robots_indexable, k.anchor_text = n.anchor_text,
    k.link_count = n.link_count, k.rel_nofollow = n.rel_nofollow, k.rel_sponsored = n.rel_sponsored, k.rel_ugc = n.rel_ugc,
    k.is_image_link = n.is_image_link, k.is_sitewide = n.is_sitewide, k.placement = n.placement, k.language_code = n.language_code,
    k.first_miss_at = n.first_miss_at, k.last_evidence = n.last_evidence, k.last_reason = n.last_reason,
    k.last_observation_id = n.last_observation_id, k.follow = n.follow, k.source_robots_indexable = n.source_robots_indexable,
    k.lost_at = n.lost_at,
    k.first_seen_at = g.first_seen_at, k.ever_live = g.ever_live, k.last_seen_live_at = g.last_seen_live_at,
    k.next_check_at = g.next_check_at, k.check_priority = g.check_priority, k.is_active = g.is_active, k.any_target = g.any_target,
    k.state_version = g.state_version
WHERE g.members > 1;

-- Who became whom: for the facts in ClickHouse, for imports, and for whoever consumes events. --------------------------------

UPDATE backlink_merges AS p
JOIN stage_merge AS g ON g.id = p.survivor_id AND g.id <> g.keep_id
SET p.survivor_id = g.keep_id;

INSERT INTO backlink_merges (loser_id, survivor_id, project_id, to_version, merged_at)
SELECT g.id, g.keep_id, g.project_id, %(version)s, %(now)s
FROM stage_merge AS g
WHERE g.id <> g.keep_id
ORDER BY g.id;

INSERT INTO transactional_outbox (id, event_key, topic, partition_key, payload, available_at)
SELECT UNHEX(CONCAT(LPAD(HEX(FLOOR(UNIX_TIMESTAMP(%(now)s) * 1000)), 12, '0'), '7', SUBSTR(SHA2(CONCAT('backlink-merged:', g.id), 256), 1, 3),
                    '8', SUBSTR(SHA2(CONCAT('backlink-merged:', g.id), 256), 4, 15))),
       UNHEX(SHA2(CONCAT('backlink-merged:', g.id), 256)), 'backlink-state-events', CONCAT(LOWER(HEX(g.project_id)), ':', g.id),
       JSON_OBJECT('schema', 1, 'tenant_id', LOWER(HEX(p.tenant_id)), 'project_id', LOWER(HEX(g.project_id)), 'backlink_id', g.id,
                   'event', 'merged', 'merged_into', g.keep_id, 'identity_version', %(version)s), %(now)s
FROM stage_merge AS g
JOIN projects AS p ON p.id = g.project_id
WHERE g.id <> g.keep_id
ORDER BY g.id
ON DUPLICATE KEY UPDATE id = transactional_outbox.id;

UPDATE url_identity_changes AS c
JOIN (SELECT g.old_source_id AS url_id, COUNT(*) AS edges FROM stage_merge AS g WHERE g.old_source_id <> g.source_url_id GROUP BY g.old_source_id) AS n
  ON n.url_id = c.url_id
SET c.edges = c.edges + n.edges
WHERE c.to_version = %(version)s;

UPDATE url_identity_changes AS c
JOIN (SELECT g.old_target_id AS url_id, COUNT(*) AS edges FROM stage_merge AS g WHERE g.old_target_id <> g.target_url_id GROUP BY g.old_target_id) AS n
  ON n.url_id = c.url_id
SET c.edges = c.edges + n.edges
WHERE c.to_version = %(version)s;

DELETE b FROM backlinks AS b
JOIN stage_merge AS g ON g.id = b.id
WHERE g.id <> g.keep_id;

-- A source needs its row that is locked when it is claimed; a target its schedule. ---------------------------------------------

INSERT INTO url_revalidation_state (source_url_id, fetch_profile_hash)
SELECT DISTINCT g.source_url_id, %(profile)s FROM stage_merge AS g ORDER BY g.source_url_id
ON DUPLICATE KEY UPDATE source_url_id = url_revalidation_state.source_url_id;

INSERT INTO target_revalidation_state (target_url_id, bucket, next_check_at)
SELECT DISTINCT g.target_url_id, d.bucket, %(now)s
FROM stage_merge AS g JOIN urls AS u ON u.id = g.target_url_id JOIN domains AS d ON d.id = u.domain_id
ORDER BY g.target_url_id
ON DUPLICATE KEY UPDATE is_active = TRUE;

UPDATE backlinks AS b
JOIN stage_merge AS g ON g.keep_id = b.id AND g.id = g.keep_id
JOIN urls AS u ON u.id = g.source_url_id
JOIN domains AS d ON d.id = u.domain_id
SET b.source_url_id = g.source_url_id, b.target_url_id = g.target_url_id, b.source_bucket = d.bucket;
