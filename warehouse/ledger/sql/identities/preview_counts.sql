SELECT j.verdict, COUNT(*) FROM stage_judged AS j GROUP BY j.verdict;
