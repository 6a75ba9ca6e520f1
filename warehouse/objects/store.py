"""The object store as the rest of the house sees it. Here: the interface, the rule for keys, and the errors.
Not here: the directory (`warehouse.objects.directory`), S3 (`warehouse.objects.s3`), Parquet (`warehouse.datasets`)
or page bodies (`warehouse.snapshots`).

Both stores keep the same promises, and one set of tests holds them to it:
- an object is there whole or not at all; a reader never sees a part of one;
- `put` of an existing key replaces it; `put_if_absent` writes only when nobody has (one of many racing writers wins);
- `delete` of what is not there is no error; `get` and `size` of what is not there raise `ObjectMissing`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa

from transforms.errors import PermanentError, TransientError

MAX_KEY_BYTES = 900
"""S3 allows 1,024 with the bucket's prefix; ours must fit with one."""

_SEGMENT = re.compile(r"[A-Za-z0-9_=+][A-Za-z0-9_=+.\-]{0,199}")


class ObjectMissing(PermanentError):
    """There is no such object."""


class BadKey(PermanentError):
    """A key that could leave the store's folder, hide from `list`, or mean two things in two stores."""


class StoreFull(PermanentError):
    """The disk (or quota) of the store is full; nothing of the object was left behind."""


class StoreDenied(PermanentError):
    """The store refuses us: wrong credentials, no permission, no such bucket."""


class StoreUnavailable(TransientError):
    """The store does not answer, or says it cannot now."""


@dataclass(frozen=True, slots=True, order=True)
class ObjectInfo:
    key: str
    size: int
    """Stored bytes."""


class ObjectStore(Protocol):
    """Blocking and safe to use from many threads."""

    url: str
    """What a person calls this store (a folder or `s3://bucket/prefix`); never holds a secret."""

    def put(self, key: str, data: bytes) -> None: ...

    def put_if_absent(self, key: str, data: bytes) -> bool:
        """True: written now. False: an object was there and was left as it is."""
        ...

    def get(self, key: str) -> bytes: ...

    def open(self, key: str) -> pa.NativeFile:
        """The object as a seekable Arrow file (a directory maps it into memory; S3 downloads it)."""
        ...

    def exists(self, keys: Sequence[str]) -> set[str]:
        """Those of the keys that are there."""
        ...

    def size(self, key: str) -> int:
        """Stored bytes."""
        ...

    def list(self, prefix: str = "") -> Iterator[ObjectInfo]:
        """Objects whose key starts with `prefix` (any string, not only whole folders), in key order."""
        ...

    def delete(self, keys: Iterable[str]) -> None: ...

    def locate(self, key: str) -> str:
        """The key as polars' lazy reader wants it: a path or an `s3://` address."""
        ...

    def scan_options(self) -> dict[str, Any] | None:
        """polars' `storage_options` for `locate`d addresses (holds credentials: hand on, never log), or None."""
        ...


def check_key(key: str) -> str:
    """`key` itself when it is fit to be one. Segments of letters, digits and `_ = + . -`, not starting with `.` or `-`,
    joined by single slashes. Raises `BadKey`."""
    if len(key) > MAX_KEY_BYTES or not all(_SEGMENT.fullmatch(segment) for segment in key.split("/")):
        raise BadKey(
            f"object key {key[:120]!r} is not allowed: use up to {MAX_KEY_BYTES} bytes of A-Z a-z 0-9 _ = + . - in "
            "segments that do not start with . or -, joined by single slashes"
        )
    return key
