UPDATE origins SET next_eligible_at = %(next)s, foreign_at = UTC_TIMESTAMP(6) WHERE origin = %(origin)s;
