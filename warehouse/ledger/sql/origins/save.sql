INSERT INTO origins (origin, next_eligible_at, backoff_until, consecutive_errors, validators_sent, validators_lied, fence)
SELECT s.origin, s.next_eligible_at, s.backoff_until, s.consecutive_errors, s.validators_sent, s.validators_lied, %(fence)s
FROM stage_origins AS s
ORDER BY s.origin
ON DUPLICATE KEY UPDATE
  next_eligible_at = GREATEST(COALESCE(origins.next_eligible_at, s.next_eligible_at), COALESCE(s.next_eligible_at, origins.next_eligible_at)),
  backoff_until = s.backoff_until,
  consecutive_errors = s.consecutive_errors,
  validators_sent = s.validators_sent,
  validators_lied = s.validators_lied,
  fence = %(fence)s;
