-- Lock the edges in key order, then see what is newer than what is there. ----------------------------------------------

SELECT COUNT(*) FROM (SELECT b.id FROM stage_latest AS s JOIN backlinks AS b ON b.id = s.backlink_id ORDER BY b.id FOR UPDATE OF b) AS locked;

UPDATE stage_latest AS s JOIN backlinks AS b ON b.id = s.backlink_id AND b.project_id = s.project_id
SET s.is_fresh = b.state_version < s.state_version;

UPDATE stage_rows AS s
JOIN backlinks AS b ON b.id = s.backlink_id AND b.project_id = s.project_id
LEFT JOIN backlink_observations AS o ON o.id = s.observation_id
SET s.is_newer = o.id IS NULL OR o.state_version < s.state_version,
    s.is_current = o.id IS NULL OR o.state_version <= s.state_version,
    s.old_event = o.transition_event, s.old_state = o.state;

-- Rollups by day count each observation and each event once, and take back what was corrected. ---------------------------

INSERT INTO project_backlink_daily_stats (project_id, stat_date, observations_count, new_count, lost_count, recovered_count)
SELECT n.project_id, n.stat_date, n.observations, GREATEST(n.new, 0), GREATEST(n.lost, 0), GREATEST(n.recovered, 0)
FROM (SELECT s.project_id, DATE(s.observed_at) AS stat_date,
             CAST(SUM(s.old_state IS NULL) AS SIGNED) AS observations,
             CAST(SUM((s.event = 'new') - (COALESCE(s.old_event, '') = 'new')) AS SIGNED) AS new,
             CAST(SUM((s.event = 'lost') - (COALESCE(s.old_event, '') = 'lost')) AS SIGNED) AS lost,
             CAST(SUM((s.event = 'recovered') - (COALESCE(s.old_event, '') = 'recovered')) AS SIGNED) AS recovered
      FROM stage_rows AS s
      WHERE s.is_newer = 1 AND (s.has_observation = 1 OR s.old_state IS NOT NULL)
      GROUP BY s.project_id, DATE(s.observed_at)
      ORDER BY s.project_id, stat_date) AS n
ON DUPLICATE KEY UPDATE
  observations_count = observations_count + n.observations,
  new_count = GREATEST(CAST(new_count AS SIGNED) + n.new, 0),
  lost_count = GREATEST(CAST(lost_count AS SIGNED) + n.lost, 0),
  recovered_count = GREATEST(CAST(recovered_count AS SIGNED) + n.recovered, 0);

-- Hot observations. -----------------------------------------------------------------------------------------------------------

INSERT INTO backlink_observations (
  id, backlink_id, crawl_run_id, page_fetch_job_id, target_validation_job_id, page_parse_result_id, idempotency_key, observed_at,
  evidence, evidence_complete, evidence_reason, state, transition_event, source_fetch_health, target_fetch_health, is_redirected,
  state_version, lost_at, misses, source_http_status, target_http_status, anchor_text, link_count, rel_nofollow, rel_sponsored,
  rel_ugc, is_image_link, placement, page_title, html_lang, source_robots_indexable, target_robots_indexable, response_time_ms,
  failure_code, metadata, content_hash, manifest_id, parser_version, source_final_url, target_final_url, link_url, follow)
SELECT * FROM (
  SELECT s.observation_id, s.backlink_id, r.id AS crawl_run_id, j.id AS job_id, t.latest_job_id, p.id AS parse_id, s.idempotency_key,
         s.observed_at, s.evidence, s.evidence_complete, s.evidence_reason, s.state, s.event, s.source_fetch_health, s.target_fetch_health,
         s.is_redirected, s.state_version, s.lost_at, s.misses, s.source_http_status, s.target_http_status, LEFT(s.anchor_text, 16000) AS anchor_text,
         s.link_count, s.rel_nofollow, s.rel_sponsored, s.rel_ugc, s.is_image_link, s.placement, LEFT(s.page_title, 16000) AS page_title,
         LEFT(s.html_lang, 16) AS html_lang, s.source_robots_indexable, s.target_robots_indexable, s.response_time_ms,
         IF(s.evidence = 'none', s.evidence_reason, NULL) AS failure_code,
         JSON_OBJECT('changes', s.changes, 'tolerated', s.tolerated, 'source_canonical_url', s.source_canonical_url) AS metadata,
         s.content_hash, s.manifest_id, s.parser_version, s.source_final_url, s.target_final_url, s.link_url, s.follow
  FROM stage_rows AS s
  JOIN backlinks AS b ON b.id = s.backlink_id AND b.project_id = s.project_id
  LEFT JOIN crawl_runs AS r ON r.id = s.crawl_run_id AND r.project_id = s.project_id
  LEFT JOIN page_fetch_jobs AS j ON j.id = s.fetch_job_id
  LEFT JOIN page_parse_results AS p ON p.manifest_id = s.manifest_id
  LEFT JOIN target_revalidation_state AS t ON t.target_url_id = s.target_url_id
  WHERE s.is_newer = 1 AND s.has_observation = 1
  ORDER BY s.backlink_id, s.observation_id) AS new
ON DUPLICATE KEY UPDATE
  crawl_run_id = new.crawl_run_id, page_fetch_job_id = new.job_id, page_parse_result_id = new.parse_id, observed_at = new.observed_at,
  evidence = new.evidence, evidence_complete = new.evidence_complete, evidence_reason = new.evidence_reason, state = new.state,
  transition_event = new.event, source_fetch_health = new.source_fetch_health, target_fetch_health = new.target_fetch_health,
  is_redirected = new.is_redirected, state_version = new.state_version, lost_at = new.lost_at, misses = new.misses,
  source_http_status = new.source_http_status, target_http_status = new.target_http_status, anchor_text = new.anchor_text,
  link_count = new.link_count, rel_nofollow = new.rel_nofollow, rel_sponsored = new.rel_sponsored, rel_ugc = new.rel_ugc,
  is_image_link = new.is_image_link, placement = new.placement, page_title = new.page_title, html_lang = new.html_lang,
  source_robots_indexable = new.source_robots_indexable, target_robots_indexable = new.target_robots_indexable,
  response_time_ms = new.response_time_ms, failure_code = new.failure_code, metadata = new.metadata, content_hash = new.content_hash,
  manifest_id = new.manifest_id, parser_version = new.parser_version, source_final_url = new.source_final_url,
  target_final_url = new.target_final_url, link_url = new.link_url, follow = new.follow;

UPDATE backlink_observations AS o
JOIN stage_rows AS s ON s.observation_id = o.id
SET o.state = s.state, o.transition_event = s.event, o.misses = s.misses, o.lost_at = s.lost_at, o.state_version = s.state_version,
    o.metadata = JSON_SET(o.metadata, '$.changes', CAST(s.changes AS JSON))
WHERE s.is_newer = 1 AND s.has_observation = 0;

-- Current state. How the link looks follows the last time it was seen; health and statuses follow the last check. -------------

UPDATE backlinks AS b
JOIN stage_latest AS s ON s.backlink_id = b.id
SET b.current_state = s.state, b.state_version = s.state_version, b.consecutive_failures = s.misses, b.first_miss_at = s.first_miss_at,
    b.ever_live = s.ever_live, b.last_seen_live_at = s.last_live_at, b.lost_at = s.lost_at, b.last_checked_at = s.observed_at,
    b.last_observation_id = s.observation_id,
    b.last_evidence = IF(s.has_observation, s.evidence, b.last_evidence),
    b.last_reason = IF(s.has_observation, s.evidence_reason, b.last_reason),
    b.source_fetch_health = IF(s.has_observation, s.source_fetch_health, b.source_fetch_health),
    b.target_fetch_health = IF(s.has_observation, s.target_fetch_health, b.target_fetch_health),
    b.source_http_status = IF(s.has_observation, s.source_http_status, b.source_http_status),
    b.target_http_status = IF(s.has_observation, s.target_http_status, b.target_http_status),
    b.source_robots_indexable = IF(s.has_observation AND s.evidence <> 'none', s.source_robots_indexable, b.source_robots_indexable),
    b.target_robots_indexable = IF(s.has_observation, s.target_robots_indexable, b.target_robots_indexable),
    b.is_redirected = IF(s.has_observation AND s.evidence = 'found', s.is_redirected, b.is_redirected),
    b.anchor_text = IF(s.has_observation AND s.evidence = 'found', LEFT(s.anchor_text, 16000), b.anchor_text),
    b.link_count = IF(s.has_observation AND s.evidence = 'found', s.link_count, b.link_count),
    b.rel_nofollow = IF(s.has_observation AND s.evidence = 'found', s.rel_nofollow, b.rel_nofollow),
    b.rel_sponsored = IF(s.has_observation AND s.evidence = 'found', s.rel_sponsored, b.rel_sponsored),
    b.rel_ugc = IF(s.has_observation AND s.evidence = 'found', s.rel_ugc, b.rel_ugc),
    b.follow = IF(s.has_observation AND s.evidence = 'found', s.follow, b.follow),
    b.is_image_link = IF(s.has_observation AND s.evidence = 'found', s.is_image_link, b.is_image_link),
    b.placement = IF(s.has_observation AND s.evidence = 'found', s.placement, b.placement),
    b.language_code = IF(s.has_observation AND s.evidence = 'found', LEFT(s.html_lang, 16), b.language_code)
WHERE s.is_fresh = 1;

UPDATE stage_schedule AS s
JOIN stage_latest AS l ON l.backlink_id = s.backlink_id AND l.is_fresh = 1
JOIN backlinks AS b ON b.id = s.backlink_id
SET b.next_check_at = LEAST(s.next_check_at, TIMESTAMPADD(SECOND, %(longest_s)s, GREATEST(l.observed_at, %(now)s))),
    b.confirm_not_before = s.confirm_not_before;

-- Which target rules it matches. --------------------------------------------------------------------------------------------------

INSERT INTO backlink_target_matches (project_id, backlink_id, project_target_id, first_matched_at, last_matched_at)
SELECT * FROM (
  SELECT l.project_id, m.backlink_id, m.project_target_id, l.observed_at AS first_at, l.observed_at AS last_at
  FROM stage_matches AS m
  JOIN stage_latest AS l ON l.backlink_id = m.backlink_id AND l.is_fresh = 1
  JOIN project_targets AS t ON t.project_id = l.project_id AND t.id = m.project_target_id AND t.deleted_at IS NULL
  ORDER BY m.backlink_id, m.project_target_id) AS new
ON DUPLICATE KEY UPDATE
  last_matched_at = GREATEST(backlink_target_matches.last_matched_at, new.last_at), is_active = TRUE, ended_at = NULL;

UPDATE backlink_target_matches AS m
JOIN stage_latest AS l ON l.backlink_id = m.backlink_id
LEFT JOIN stage_matches AS k ON k.backlink_id = m.backlink_id AND k.project_target_id = m.project_target_id
SET m.is_active = FALSE, m.ended_at = l.observed_at
WHERE l.is_fresh = 1 AND l.has_observation = 1 AND m.is_active = TRUE AND k.backlink_id IS NULL;

-- Where it stands on the page. Only a find or a complete miss says anything about occurrences. What a fixed parser finds in
-- an old window is added to the past: it does not bring back what is gone since. -----------------------------------------------------

UPDATE backlink_occurrences AS c
JOIN stage_latest AS l ON l.backlink_id = c.backlink_id
LEFT JOIN stage_occurrences AS k ON k.backlink_id = c.backlink_id AND k.occurrence_key = c.occurrence_key AND k.is_current = 1
SET c.is_live = FALSE
WHERE l.is_fresh = 1 AND l.has_observation = 1 AND c.is_live = TRUE AND k.backlink_id IS NULL
  AND l.evidence_complete = 1 AND l.knows_places = 1;

INSERT INTO backlink_occurrences (backlink_id, occurrence_key, locator_hash, anchor_text, rel_nofollow, rel_sponsored, rel_ugc, is_image_link,
                                  placement, first_seen_at, last_seen_at, is_live, kind, link_url, locator, position, follow)
SELECT * FROM (
  SELECT s.backlink_id, s.occurrence_key, UNHEX(SHA2(s.locator, 256)) AS locator_hash, LEFT(s.anchor_text, 16000) AS anchor_text,
         s.rel_nofollow, s.rel_sponsored, s.rel_ugc, s.is_image, s.placement, s.first_at, s.last_at,
         s.is_current, s.kind, s.link_url, LEFT(s.locator, 16000) AS locator, s.position, s.follow
  FROM stage_occurrences AS s
  JOIN stage_latest AS l ON l.backlink_id = s.backlink_id AND l.is_fresh = 1
  ORDER BY s.backlink_id, s.occurrence_key) AS new
ON DUPLICATE KEY UPDATE
  anchor_text = IF(new.is_current, new.anchor_text, backlink_occurrences.anchor_text),
  rel_nofollow = IF(new.is_current, new.rel_nofollow, backlink_occurrences.rel_nofollow),
  rel_sponsored = IF(new.is_current, new.rel_sponsored, backlink_occurrences.rel_sponsored),
  rel_ugc = IF(new.is_current, new.rel_ugc, backlink_occurrences.rel_ugc),
  is_image_link = IF(new.is_current, new.is_image, backlink_occurrences.is_image_link),
  placement = IF(new.is_current, new.placement, backlink_occurrences.placement),
  kind = IF(new.is_current, new.kind, backlink_occurrences.kind),
  link_url = IF(new.is_current, new.link_url, backlink_occurrences.link_url),
  locator = IF(new.is_current, new.locator, backlink_occurrences.locator),
  position = IF(new.is_current, new.position, backlink_occurrences.position),
  follow = IF(new.is_current, new.follow, backlink_occurrences.follow),
  is_live = IF(new.is_current, TRUE, backlink_occurrences.is_live),
  first_seen_at = LEAST(backlink_occurrences.first_seen_at, new.first_at),
  last_seen_at = GREATEST(backlink_occurrences.last_seen_at, new.last_at);

-- Alerts: an event that a corrected history no longer holds is retracted; one that stands is there once. ----------------------------

UPDATE alert_events AS e
JOIN stage_rows AS s ON s.observation_id = e.observation_id
LEFT JOIN stage_held AS h ON h.observation_id = e.observation_id AND h.event_type = e.event_type
SET e.retracted_at = %(now)s,
    e.aggregate_delivery_status = IF(e.aggregate_delivery_status = 'pending', 'cancelled', e.aggregate_delivery_status)
WHERE s.is_newer = 1 AND s.old_event IS NOT NULL AND e.retracted_at IS NULL AND h.observation_id IS NULL
  -- without its observation only the transition is known
  AND (s.has_observation = 1 OR (e.event_type IN ('backlink.new', 'backlink.lost', 'backlink.recovered')
                                 AND e.event_type <> CONCAT('backlink.', s.event)));

UPDATE alert_deliveries AS d
JOIN alert_events AS e ON e.id = d.alert_event_id
JOIN stage_rows AS s ON s.observation_id = e.observation_id
SET d.status = 'cancelled', d.lease_owner = NULL, d.leased_until = NULL
WHERE e.retracted_at IS NOT NULL AND d.status IN ('pending', 'leased');

INSERT INTO alert_events (id, project_id, alert_rule_id, backlink_id, observation_id, event_type, deduplication_key, payload, occurred_at)
SELECT * FROM (
  SELECT UNHEX(CONCAT(LPAD(HEX(FLOOR(UNIX_TIMESTAMP(a.occurred_at) * 1000)), 12, '0'), '7', SUBSTR(HEX(a.deduplication_key), 1, 3),
                      '8', SUBSTR(HEX(a.deduplication_key), 4, 15))) AS id,
         a.project_id, a.alert_rule_id, a.backlink_id, a.observation_id, a.event_type, a.deduplication_key, a.payload, a.occurred_at
  FROM stage_alerts AS a
  JOIN projects AS p ON p.id = a.project_id
  LEFT JOIN alert_rules AS r ON r.id = a.alert_rule_id AND r.project_id = a.project_id
  LEFT JOIN backlinks AS b ON b.id = a.backlink_id AND b.project_id = a.project_id
  LEFT JOIN stage_rows AS s ON s.observation_id = a.observation_id
  WHERE (a.alert_rule_id IS NULL OR r.id IS NOT NULL) AND (a.backlink_id IS NULL OR b.id IS NOT NULL)
    AND (a.observation_id IS NULL OR s.is_current = 1)
  ORDER BY a.deduplication_key) AS new
ON DUPLICATE KEY UPDATE
  aggregate_delivery_status = IF(alert_events.retracted_at IS NOT NULL AND alert_events.aggregate_delivery_status = 'cancelled', 'pending',
                                 alert_events.aggregate_delivery_status),
  retracted_at = NULL;

UPDATE alert_deliveries AS d
JOIN alert_events AS e ON e.id = d.alert_event_id
JOIN stage_alerts AS a ON a.deduplication_key = e.deduplication_key
SET d.status = 'pending', d.available_at = %(now)s
WHERE e.retracted_at IS NULL AND d.status = 'cancelled' AND d.attempts = 0;

INSERT INTO alert_deliveries (alert_event_id, channel, destination, destination_hash, available_at)
SELECT * FROM (
  SELECT e.id, d.channel, d.destination, UNHEX(SHA2(d.destination, 256)) AS destination_hash, %(now)s AS available_at
  FROM stage_deliveries AS d
  JOIN alert_events AS e ON e.deduplication_key = d.deduplication_key AND e.retracted_at IS NULL
  -- A correction that only moves an event to another check is no news to whoever was told of it.
  WHERE NOT EXISTS (
    SELECT 1 FROM alert_events AS moved
    JOIN alert_deliveries AS told ON told.alert_event_id = moved.id AND told.status = 'delivered'
    WHERE moved.backlink_id = e.backlink_id AND moved.alert_rule_id <=> e.alert_rule_id AND moved.event_type = e.event_type
      AND moved.retracted_at = %(now)s AND told.channel = d.channel AND told.destination_hash = UNHEX(SHA2(d.destination, 256)))
  ORDER BY e.id, d.channel, destination_hash) AS new
ON DUPLICATE KEY UPDATE id = alert_deliveries.id;

-- Broker events: what happened, and what turned out otherwise, with a rising version. --------------------------------------------

INSERT INTO transactional_outbox (id, event_key, topic, partition_key, payload, available_at)
SELECT * FROM (
  SELECT UNHEX(CONCAT(LPAD(HEX(FLOOR(UNIX_TIMESTAMP(s.observed_at) * 1000)), 12, '0'), '7',
                      SUBSTR(SHA2(CONCAT_WS(':', 'backlink-state', s.observation_id, s.state_version), 256), 1, 3),
                      '8', SUBSTR(SHA2(CONCAT_WS(':', 'backlink-state', s.observation_id, s.state_version), 256), 4, 15))) AS id,
         UNHEX(SHA2(CONCAT_WS(':', 'backlink-state', s.observation_id, s.state_version), 256)) AS event_key,
         'backlink-state-events' AS topic, CONCAT(LOWER(HEX(s.project_id)), ':', s.backlink_id) AS partition_key,
         JSON_OBJECT('schema', 1, 'tenant_id', LOWER(HEX(s.tenant_id)), 'project_id', LOWER(HEX(s.project_id)),
                     'backlink_id', s.backlink_id, 'source_url', su.normalized_url, 'target_url', tu.normalized_url,
                     'observation_id', CAST(s.observation_id AS CHAR), 'observed_at', DATE_FORMAT(s.observed_at, '%Y-%m-%dT%H:%i:%s.%fZ'),
                     'event', s.event, 'changes', s.changes, 'state', s.state, 'state_version', s.state_version,
                     'is_correction', s.old_state IS NOT NULL, 'corrects_event', s.old_event) AS payload,
         %(now)s AS available_at
  FROM stage_rows AS s
  JOIN backlinks AS b ON b.id = s.backlink_id AND b.project_id = s.project_id
  JOIN urls AS su ON su.id = b.source_url_id
  JOIN urls AS tu ON tu.id = b.target_url_id
  WHERE s.is_newer = 1
    AND IF(s.old_state IS NULL, s.has_observation = 1 AND (s.event <> 'none' OR JSON_LENGTH(s.changes) > 0),
           s.old_event <> s.event OR s.old_state <> s.state)
  ORDER BY event_key) AS new
ON DUPLICATE KEY UPDATE id = transactional_outbox.id;

INSERT INTO transactional_outbox (id, event_key, topic, partition_key, payload, available_at)
SELECT * FROM (
  SELECT UNHEX(CONCAT(LPAD(HEX(FLOOR(UNIX_TIMESTAMP(o.occurred_at) * 1000)), 12, '0'), '7', SUBSTR(HEX(o.event_key), 1, 3),
                      '8', SUBSTR(HEX(o.event_key), 4, 15))) AS id,
         o.event_key, o.topic, o.partition_key, o.payload, %(now)s AS available_at
  FROM stage_outbox AS o
  JOIN alert_events AS e ON e.deduplication_key = o.deduplication_key AND e.retracted_at IS NULL
  ORDER BY o.event_key) AS new
ON DUPLICATE KEY UPDATE id = transactional_outbox.id;

-- The consumers of the window are done; their runs count each of them once. ----------------------------------------------------------

UPDATE stage_pages AS s
JOIN crawl_pages AS g ON g.id = s.crawl_page_id
SET s.run_id = g.crawl_run_id, s.was_open = g.status NOT IN ('completed', 'failed'), s.was_failed = g.status = 'failed';

UPDATE crawl_pages AS g
JOIN stage_pages AS s ON s.crawl_page_id = g.id
SET g.status = IF(s.is_done, 'completed', 'failed'), g.completed_at = %(now)s, g.lease_owner = NULL, g.leased_until = NULL
WHERE s.was_open = 1 OR (s.was_failed = 1 AND s.is_done = 1);

UPDATE crawl_runs AS r
JOIN (SELECT run_id, SUM((was_open = 1 OR was_failed = 1) AND is_done = 1) AS done,
             CAST(SUM(was_open = 1 AND is_done = 0) AS SIGNED) - CAST(SUM(was_failed = 1 AND is_done = 1) AS SIGNED) AS failed
      FROM stage_pages WHERE run_id IS NOT NULL GROUP BY run_id ORDER BY run_id) AS n ON n.run_id = r.id
SET r.pages_completed = r.pages_completed + n.done, r.pages_failed = CAST(r.pages_failed AS SIGNED) + n.failed;

UPDATE crawl_runs AS r
JOIN (SELECT DISTINCT run_id FROM stage_pages WHERE run_id IS NOT NULL) AS n ON n.run_id = r.id
SET r.status = IF(r.pages_failed = 0, 'completed', 'partial'), r.completed_at = %(now)s, r.expansion_completed = TRUE,
    r.expansion_completed_at = %(now)s
WHERE r.pages_completed + r.pages_failed >= r.pages_planned AND r.status = 'running';

UPDATE projects AS p
JOIN (SELECT DISTINCT project_id FROM stage_rows) AS n ON n.project_id = p.id
SET p.last_crawl_at = GREATEST(COALESCE(p.last_crawl_at, %(now)s), %(now)s);
