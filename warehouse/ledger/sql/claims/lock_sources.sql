INSERT INTO stage_locked (source_url_id)
SELECT r.source_url_id
FROM stage_sources AS s
STRAIGHT_JOIN url_revalidation_state AS r ON r.source_url_id = s.source_url_id AND r.fetch_profile_hash = %(profile)s
FOR UPDATE OF r SKIP LOCKED;
