-- Only what the newest fetch of a source saw is remembered: a window that is parsed again does not overrule a later one.
UPDATE url_revalidation_state AS r
JOIN stage_looks AS s ON s.source_url_id = r.source_url_id AND s.fetch_job_id = r.latest_fetch_job_id
SET r.good_link_count = s.prior_link_count, r.good_text_bytes = s.prior_text_bytes,
    r.collapsed_looks = s.collapsed_looks, r.collapsed_since = s.collapsed_since;
