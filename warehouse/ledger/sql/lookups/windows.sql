SELECT j.validation_window, COUNT(*), SUM(j.outcome IS NULL AND j.status IN ('queued', 'leased')),
       COALESCE(SUM(j.outcome = 'fetched'), 0), COALESCE(SUM(j.outcome = 'not_modified'), 0), COALESCE(SUM(j.outcome = 'gone'), 0),
       COALESCE(SUM(j.outcome = 'blocked'), 0), COALESCE(SUM(j.outcome = 'failed' OR (j.outcome IS NULL AND j.status = 'failed')), 0),
       COALESCE(SUM(j.outcome = 'deferred'), 0), SUM(j.is_confirmation), COALESCE(SUM(j.wire_bytes), 0)
FROM page_fetch_jobs AS j
JOIN (SELECT DISTINCT validation_window FROM page_fetch_jobs ORDER BY validation_window DESC LIMIT %(windows)s) AS w
  ON w.validation_window = j.validation_window
GROUP BY j.validation_window
ORDER BY j.validation_window DESC;
