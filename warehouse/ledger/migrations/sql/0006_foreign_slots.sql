-- When a shard last reserved a slot at an origin of another one: the owner asks for these while it runs.
ALTER TABLE origins
  ADD COLUMN foreign_at DATETIME(6) NULL,
  ADD KEY origins_foreign_idx (foreign_at);
