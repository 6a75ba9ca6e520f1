-- The history of one edge: every observation with the state after it, oldest first.
SELECT
    observation.* EXCEPT (evidence, source_fetch_health, target_fetch_health),
    toString(observation.evidence) AS evidence,
    toString(observation.source_fetch_health) AS source_fetch_health,
    toString(observation.target_fetch_health) AS target_fetch_health,
    toString(history.state) AS state,
    toString(history.event) AS event,
    history.changes AS changes,
    history.misses AS misses,
    history.first_miss_at AS first_miss_at,
    history.ever_live AS ever_live,
    history.last_live_at AS last_live_at,
    history.lost_at AS lost_at,
    history.state_version AS state_version
FROM (
    SELECT * FROM backlink_observations_fact FINAL
    WHERE project_id = {project:UUID} AND backlink_id = {backlink:UInt64}
) AS observation
INNER JOIN (
    SELECT * FROM edge_history FINAL
    WHERE project_id = {project:UUID} AND backlink_id = {backlink:UInt64}
) AS history ON observation.observation_id = history.observation_id
ORDER BY observation.observed_at, observation.observation_id
