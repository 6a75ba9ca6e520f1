"""The fold in ten lines of Python, written from DESIGN.md section 4 and nothing else. Not a test module."""

from __future__ import annotations

from datetime import timedelta
from typing import Any


def fold(observations: list[dict[str, Any]]) -> list[tuple[str, str, int, bool, int]]:
    """(state, event, misses, anchor changed, state version) after each observation of one edge, in time order."""
    state, misses, first_miss, ever_live, anchor, version, after = "unknown", 0, None, False, None, 0, []
    for one in sorted(observations, key=lambda row: (row["observed_at"], row["observation_id"])):
        event, changed, version = "none", False, max(version, one["ingest_version"])
        if one["evidence"] == "found":
            event = "new" if not ever_live else "recovered" if state == "lost" else "none"
            changed, anchor = ever_live and one["anchor_text"] != anchor, one["anchor_text"]
            state, misses, first_miss, ever_live = "live", 0, None, True
        elif one["evidence"] == "missing" and one["evidence_complete"]:
            misses, first_miss = misses + 1, first_miss or one["observed_at"]
            if state != "lost" and misses >= 2 and one["observed_at"] - first_miss >= timedelta(minutes=30):
                state, event = "lost", "lost" if ever_live else "none"
        after.append((state, event, misses, changed, version))
    return after
