INSERT INTO url_identity_changes (url_id, to_version, from_version, verdict, old_url, new_url, new_hash, host, registrable_domain,
                                  public_suffix, reason)
SELECT * FROM (
  SELECT s.url_id, %(version)s AS to_version, s.from_version, IF(s.new_hash IS NULL, 'refused', 'planned') AS verdict, s.old_url, s.new_url,
         s.new_hash, s.host, s.registrable_domain, s.public_suffix, s.reason
  FROM stage_changes AS s
  ORDER BY s.url_id) AS new
ON DUPLICATE KEY UPDATE
  verdict = new.verdict, old_url = new.old_url, new_url = new.new_url, new_hash = new.new_hash, host = new.host,
  registrable_domain = new.registrable_domain, public_suffix = new.public_suffix, reason = new.reason;
