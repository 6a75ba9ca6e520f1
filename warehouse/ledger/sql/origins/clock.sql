SELECT next_eligible_at, backoff_until, min_gap_s FROM origins WHERE origin = %(origin)s FOR UPDATE;
