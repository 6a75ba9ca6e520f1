"""Which windows the sensor folds."""

from __future__ import annotations

from datetime import datetime

from orchestration.sensors import windows_to_fold
from orchestration.settings import Settings

SETTINGS = Settings(shards=2, clock_now=datetime.fromisoformat("2026-12-01T10:30:00+00:00"), _env_file=None)  # type: ignore[call-arg]
OPEN, LAST, OLD = "2026-12-01-10:00", "2026-12-01-08:00", "2026-11-20-10:00"


def keys(done: dict[str, int], folded: dict[str, int]) -> list[tuple[str, int]]:
    return [(window.key, event) for window, event in windows_to_fold(done, folded, settings=SETTINGS)]


def test_a_window_waits_for_all_of_its_shards() -> None:
    assert keys({f"0|{OPEN}": 5}, {}) == []
    assert keys({f"0|{OPEN}": 5, f"1|{OPEN}": 7}, {}) == [(OPEN, 7)]


def test_a_folded_window_is_folded_again_only_when_a_shard_changed() -> None:
    done = {f"0|{OPEN}": 5, f"1|{OPEN}": 7}
    assert keys(done, {OPEN: 9}) == []
    assert keys({**done, f"0|{OPEN}": 11}, {OPEN: 9}) == [(OPEN, 11)]


def test_a_window_long_over_is_folded_without_the_shard_it_lacks() -> None:
    assert keys({f"0|{LAST}": 5}, {}) == [(LAST, 5)]


def test_a_window_older_than_the_look_back_is_left_to_a_backfill() -> None:
    assert keys({f"0|{OLD}": 5, f"1|{OLD}": 6}, {}) == []


def test_oldest_first() -> None:
    done = {f"0|{OPEN}": 5, f"1|{OPEN}": 7, f"0|{LAST}": 8, f"1|{LAST}": 9}
    assert [key for key, _ in keys(done, {})] == [LAST, OPEN]
