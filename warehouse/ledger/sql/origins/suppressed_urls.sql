-- An identity begins with its origin. Only rows of one scope are read: they are few, or the host itself is suppressed.
SELECT s.value
FROM suppressions AS s
JOIN stage_origins AS o ON o.origin = SUBSTRING_INDEX(s.value, '/', 3)
WHERE s.scope = 'url' AND s.lifted_at IS NULL;
