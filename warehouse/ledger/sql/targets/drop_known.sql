DELETE s FROM stage_health AS s
LEFT JOIN target_validation_jobs AS j ON j.coalescing_key = UNHEX(SHA2(CONCAT(s.target_url_id, ':', %(window_key)s), 256))
WHERE j.id IS NULL OR j.validated_at >= s.checked_at;
