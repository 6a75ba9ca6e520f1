INSERT INTO origins (origin, min_gap_s, max_in_flight) VALUES (%(origin)s, %(min_gap_s)s, %(max_in_flight)s)
ON DUPLICATE KEY UPDATE min_gap_s = %(min_gap_s)s, max_in_flight = %(max_in_flight)s;

INSERT INTO audit_log (actor, action, subject, detail)
VALUES (%(actor)s, 'origin.override', %(origin)s, JSON_OBJECT('min_gap_s', %(min_gap_s)s, 'max_in_flight', %(max_in_flight)s));
