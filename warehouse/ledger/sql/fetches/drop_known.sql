-- What is committed already, or older than what is, changes nothing; nor does a job that is gone. An answer is never
-- replaced by a deferral.
DELETE s FROM stage_results AS s
LEFT JOIN page_fetch_jobs AS j ON j.id = s.fetch_job_id
WHERE j.id IS NULL
   OR (j.fetched_at IS NOT NULL AND (j.fetched_at > s.fetched_at
       OR (j.fetched_at = s.fetched_at AND NOT (j.outcome <=> 'deferred' AND s.outcome <> 'deferred'))
       OR (j.outcome <> 'deferred' AND s.outcome = 'deferred')));
