"""How long to leave a server alone. Here: Retry-After and exponential back-off with jitter, as pure functions. Not
here: who waits.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

MAX_RETRY_AFTER_S = 7 * 24 * 3600
"""A longer Retry-After (a year, a typing error) is capped: every active edge is looked at within 7 days."""


def parse_retry_after(value: str | None, now: datetime) -> int | None:
    """Seconds from `now` (RFC 9110 §10.2.3: delay-seconds or an HTTP-date); None when absent or not understood."""
    if value is None:
        return None
    value = value.strip()
    if value.isascii() and value.isdigit():
        return min(int(value[:12]), MAX_RETRY_AFTER_S)
    try:
        at = parsedate_to_datetime(value)
    except (TypeError, ValueError, IndexError):
        return None
    if at.tzinfo is None:
        at = at.replace(tzinfo=UTC)
    seconds = (at - now).total_seconds()
    return max(0, min(int(seconds + 0.999), MAX_RETRY_AFTER_S))


def backoff_s(failures: int, base_s: float, cap_s: float, rng: Callable[[], float]) -> float:
    """Exponential in the number of failures in a row (from 1), with jitter upwards of at most 25 %; never above the cap
    by more than that jitter. `rng` gives [0, 1)."""
    return min(cap_s, base_s * 2.0 ** min(max(failures, 1) - 1, 20)) * (1.0 + 0.25 * rng())
