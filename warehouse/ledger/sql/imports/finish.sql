UPDATE import_runs
SET status = %(status)s, rows_received = %(received)s, rows_accepted = %(accepted)s, rows_duplicate = %(duplicate)s,
    rows_invalid = %(invalid)s, error = %(error)s, completed_at = %(now)s
WHERE id = %(id)s;
