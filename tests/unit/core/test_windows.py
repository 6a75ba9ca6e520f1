"""Windows and shards: keys round-trip, windows tile time, shards own whole buckets and move little."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transforms.windows import BUCKETS, Window, bucket_of, buckets_of_shard, shard_of_bucket, shard_of_domain

instants = st.datetimes(
    min_value=datetime(2000, 1, 1),  # noqa: DTZ001 - hypothesis adds the zone
    max_value=datetime(2100, 1, 1),  # noqa: DTZ001
    timezones=st.just(UTC),
)
lengths = st.sampled_from([timedelta(minutes=m) for m in (5, 15, 60, 120, 1440)])


@given(instants, lengths)
def test_an_instant_lies_in_exactly_the_window_that_contains_it(at: datetime, length: timedelta) -> None:
    window = Window.containing(at, length)
    assert window.start <= at < window.end
    assert Window.containing(window.end, length).start == window.end


@given(instants)
def test_keys_round_trip(at: datetime) -> None:
    window = Window.containing(at)
    assert Window.from_key(window.key) == window


def test_keys_are_what_dagster_prints_and_paths_have_no_colon() -> None:
    window = Window(datetime(2026, 12, 1, 9, tzinfo=UTC))
    assert (window.key, window.path) == ("2026-12-01-09:00", "2026-12-01T09-00")


def test_a_window_must_start_in_utc() -> None:
    with pytest.raises(ValueError, match="must be UTC"):
        Window(datetime(2026, 12, 1, 9, tzinfo=timezone(timedelta(hours=1))))


@given(st.integers(1, 16))
def test_shards_part_the_buckets(shards: int) -> None:
    owned = [buckets_of_shard(shard, shards) for shard in range(shards)]
    assert sorted(b for buckets in owned for b in buckets) == list(range(BUCKETS))


@given(st.integers(1, 15))
def test_adding_a_shard_moves_buckets_only_to_it(shards: int) -> None:
    before = [shard_of_bucket(b, shards) for b in range(BUCKETS)]
    after = [shard_of_bucket(b, shards + 1) for b in range(BUCKETS)]
    assert all(new in (old, shards) for old, new in zip(before, after, strict=True))


def test_four_shards_share_the_buckets_about_evenly() -> None:
    sizes = [len(buckets_of_shard(shard, 4)) for shard in range(4)]
    assert sum(sizes) == 256
    assert min(sizes) > 40  # 64 each would be even


def test_a_domain_stays_where_it_is() -> None:
    """Pinned: a change of the hash would move every host to another shard and so break running clocks."""
    assert bucket_of("example.com") == 0xA3
    assert shard_of_domain("example.com", 4) == shard_of_bucket(0xA3, 4)
