SELECT 'alert_deliveries', status, COUNT(*), MIN(available_at) FROM alert_deliveries GROUP BY status
UNION ALL
SELECT 'transactional_outbox', status, COUNT(*), MIN(available_at) FROM transactional_outbox GROUP BY status
ORDER BY 1, 2;
