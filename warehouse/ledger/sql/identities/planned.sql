SELECT c.url_id, c.new_url, c.new_hash, c.host, c.registrable_domain, c.public_suffix,
       MIN(c.url_id) OVER (PARTITION BY c.new_hash) AS survivor_id
FROM url_identity_changes AS c
WHERE c.to_version = %(version)s AND c.verdict = 'planned' AND c.url_id > %(after)s AND c.url_id <= %(upto)s;
