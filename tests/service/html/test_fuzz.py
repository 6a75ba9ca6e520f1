"""A few seconds of hostile bytes (the ten minutes are `python -m tests.bench.parse_fuzz`)."""

from __future__ import annotations

from tests.bench.parse_fuzz import fuzz


def test_hostile_bytes_become_outcomes() -> None:
    reasons = fuzz(seconds=5, seed=20261201, workers=1)
    assert reasons["ok"] > 0
    assert reasons["parse_failed"] == 0
