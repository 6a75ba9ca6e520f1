DELETE FROM alert_events WHERE project_id = %(project_id)s LIMIT %(batch)s;

DELETE FROM backlinks WHERE project_id = %(project_id)s LIMIT %(batch)s;

DELETE FROM crawl_pages
WHERE crawl_run_id IN (SELECT id FROM crawl_runs WHERE project_id = %(project_id)s) LIMIT %(batch)s;

DELETE FROM import_items
WHERE import_run_id IN (SELECT id FROM import_runs WHERE project_id = %(project_id)s) LIMIT %(batch)s;

DELETE FROM target_import_items
WHERE batch_id IN (SELECT id FROM target_import_batches WHERE project_id = %(project_id)s) LIMIT %(batch)s;

DELETE FROM project_referring_domain_stats WHERE project_id = %(project_id)s LIMIT %(batch)s;

DELETE FROM project_backlink_daily_stats WHERE project_id = %(project_id)s LIMIT %(batch)s;

DELETE FROM backlink_current_sharded WHERE project_id = %(project_id)s LIMIT %(batch)s;

DELETE FROM source_watch_subscriptions WHERE project_id = %(project_id)s LIMIT %(batch)s;
