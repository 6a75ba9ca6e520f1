SELECT COUNT(*) FROM stage_pages AS s JOIN page_parse_results AS p ON p.manifest_id = s.manifest_id;
