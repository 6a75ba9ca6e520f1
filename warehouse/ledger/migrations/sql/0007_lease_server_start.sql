-- When the server started in which the owner took its named lock: a restart drops locks of owners that are alive.
ALTER TABLE shard_leases
  ADD COLUMN server_started_at DATETIME NULL;
