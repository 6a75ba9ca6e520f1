-- Hosts with more pages to check than `least`, most first; what the operator or the origin's record says of their pace.
SELECT d.hostname, COUNT(*) AS sources,
       COALESCE(MAX(o.min_gap_s), %(gap_s)s), COALESCE(MAX(o.max_in_flight), %(in_flight)s)
FROM url_revalidation_state AS r
JOIN urls AS u ON u.id = r.source_url_id
JOIN domains AS d ON d.id = u.domain_id
LEFT JOIN origins AS o ON o.origin IN (CONCAT('https://', d.hostname), CONCAT('http://', d.hostname))
GROUP BY d.hostname
HAVING sources > %(least)s
ORDER BY sources DESC
LIMIT %(limit)s
