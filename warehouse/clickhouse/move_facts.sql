-- An observation belongs to one edge: under the id of the edge that its own became, with a version above all others.
-- (The filter stands inside: outside, `backlink_id` would be the replaced one.)
INSERT INTO backlink_observations_fact
SELECT * REPLACE(
    transform(backlink_id, {losers:Array(UInt64)}, {survivors:Array(UInt64)}, backlink_id) AS backlink_id,
    greatest(ingest_version + 1, {version:UInt64}) AS ingest_version
)
FROM (SELECT * FROM backlink_observations_fact FINAL WHERE backlink_id IN {losers:Array(UInt64)})
