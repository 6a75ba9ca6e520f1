SELECT e.verdict, e.old_url, e.became,
       (SELECT COUNT(*) FROM backlinks AS b WHERE b.source_url_id = e.url_id) + (SELECT COUNT(*) FROM backlinks AS b WHERE b.target_url_id = e.url_id)
FROM (SELECT j.url_id, j.verdict, j.old_url, COALESCE(j.new_url, j.reason) AS became,
             ROW_NUMBER() OVER (PARTITION BY j.verdict ORDER BY j.url_id) AS place
      FROM stage_judged AS j) AS e
WHERE e.place <= %(limit)s
ORDER BY e.verdict, e.place;
