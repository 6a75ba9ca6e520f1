"""Windows and shards: the two dimensions of a partition. Here: their arithmetic. Not here: Dagster's partition objects."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

BUCKETS = 256
"""Registrable domains are hashed into this many buckets; shards own whole buckets (small enough for an `IN` list)."""

_KEY_FORMAT = "%Y-%m-%d-%H:%M"


@dataclass(frozen=True, order=True)
class Window:
    """A half-open span of UTC time, `[start, end)`, in which each source is validated at most once."""

    start: datetime
    length: timedelta = timedelta(hours=1)

    def __post_init__(self) -> None:
        if self.start.tzinfo is None or self.start.utcoffset() != timedelta(0):
            raise ValueError(f"window start must be UTC: {self.start!r}")

    @property
    def end(self) -> datetime:
        return self.start + self.length

    @property
    def key(self) -> str:
        """The Dagster partition key of the window dimension, e.g. `2026-12-01-10:00`."""
        return self.start.strftime(_KEY_FORMAT)

    @property
    def path(self) -> str:
        """The key as a path segment: no colon, sorts by time, e.g. `2026-12-01T10-00`."""
        return self.start.strftime("%Y-%m-%dT%H-%M")

    @classmethod
    def from_key(cls, key: str, length: timedelta = timedelta(hours=1)) -> Window:
        return cls(datetime.strptime(key, _KEY_FORMAT).replace(tzinfo=UTC), length)

    @classmethod
    def containing(cls, at: datetime, length: timedelta = timedelta(hours=1)) -> Window:
        epoch = datetime(1970, 1, 1, tzinfo=UTC)
        return cls(epoch + (at.astimezone(UTC) - epoch) // length * length, length)


def bucket_of(registrable_domain: str) -> int:
    """Bucket (0 to 255) of a registrable domain; all hosts of a domain share it."""
    return hashlib.sha256(registrable_domain.encode()).digest()[0]


def shard_of_bucket(bucket: int, shards: int) -> int:
    """Shard that owns a bucket, by rendezvous hashing: going from N to N+1 shards moves about 1/(N+1) of the buckets."""
    return max(range(shards), key=lambda shard: hashlib.sha256(f"{bucket}:{shard}".encode()).digest())


def buckets_of_shard(shard: int, shards: int) -> list[int]:
    return [bucket for bucket in range(BUCKETS) if shard_of_bucket(bucket, shards) == shard]


def shard_of_domain(registrable_domain: str, shards: int) -> int:
    return shard_of_bucket(bucket_of(registrable_domain), shards)
