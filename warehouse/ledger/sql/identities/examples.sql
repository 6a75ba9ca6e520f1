SELECT e.verdict, e.old_url, e.became, e.edges
FROM (SELECT c.verdict, c.old_url, COALESCE(c.new_url, c.reason) AS became, c.edges,
             ROW_NUMBER() OVER (PARTITION BY c.verdict ORDER BY c.url_id) AS place
      FROM url_identity_changes AS c
      WHERE c.to_version = %(version)s) AS e
WHERE e.place <= %(limit)s
ORDER BY e.verdict, e.place;
