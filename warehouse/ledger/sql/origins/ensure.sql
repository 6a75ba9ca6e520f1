INSERT INTO origins (origin) VALUES (%(origin)s) ON DUPLICATE KEY UPDATE origin = origins.origin;
