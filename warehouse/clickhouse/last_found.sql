-- The newest evidence `found` of each edge before an instant: what a change is compared with.
SELECT {columns} FROM (
    SELECT * FROM backlink_observations_fact FINAL
    WHERE backlink_id IN ({ids}) AND evidence = 'found' AND observed_at < {{at:DateTime64(6, 'UTC')}}
    ORDER BY observed_at DESC
    LIMIT 1 BY project_id, backlink_id
)
