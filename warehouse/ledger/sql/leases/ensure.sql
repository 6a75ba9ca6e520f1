INSERT INTO shard_leases (name) VALUES (%(name)s) ON DUPLICATE KEY UPDATE name = shard_leases.name;
