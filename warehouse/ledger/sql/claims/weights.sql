-- What a tenant's turn is worth; one without a row has weight 1.
SELECT l.tenant_id, l.scheduler_weight FROM tenant_crawl_limits AS l;
