SELECT o.origin, o.next_eligible_at, o.backoff_until, o.consecutive_errors, o.min_gap_s, o.max_in_flight, o.validators_sent, o.validators_lied
FROM stage_origins AS s JOIN origins AS o ON o.origin = s.origin;
