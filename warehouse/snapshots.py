"""Page bodies as they were received. Here: content-addressed, compressed, verified snapshots in the object store.
Not here: who refers to them and for how long (the ledger's `page_content_snapshots`).

A snapshot is named by the SHA-256 of its decoded body: `snapshots/ab/cd/<hex>.zst`. Evidence stands on it, so a body
counts as available only after it was read back from the store and hashed; and what is read later is hashed again.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import zstandard

from transforms.errors import PermanentError
from warehouse.objects import ObjectMissing, ObjectStore

MAX_BODY_BYTES = 64 * 1024 * 1024
"""No body of ours is larger (the crawler stops at 10 MiB): a frame that claims more is not ours."""

_LEVEL = 3
_SUFFIX = ".zst"


class SnapshotQuarantined(PermanentError):
    """The stored bytes are not the body that was fetched. They prove nothing and must not be parsed."""


@dataclass(frozen=True, slots=True)
class StoredSnapshot:
    content_hash: bytes
    """SHA-256 of the decoded body, 32 bytes."""
    object_key: str
    uncompressed_bytes: int
    stored_bytes: int
    is_new: bool
    """False: the same body was there already, and was verified."""


class SnapshotStore:
    """Safe to use from many threads; `put_many` and `get_many` use `threads` of their own."""

    def __init__(self, store: ObjectStore, threads: int = 8) -> None:
        self.store = store
        self.threads = threads
        self._local = threading.local()

    def put_many(self, bodies: Sequence[bytes]) -> list[StoredSnapshot]:
        """Store bodies, one result per body in the same order; equal bodies are stored once.

        Each is compressed, uploaded unless it is there, read back and hashed; only then is it returned as available. A
        stored object that turns out damaged is replaced by the good body. Raises what the store raises, or
        `SnapshotQuarantined` when the store does not give back what it was given; bodies stored until then stay and are
        found again by the next attempt.
        """
        hashes = [hashlib.sha256(body).digest() for body in bodies]
        unique = dict(zip(hashes, bodies, strict=True))
        if len(unique) <= 1:
            stored = {digest: self._put(digest, body) for digest, body in unique.items()}
        else:
            with ThreadPoolExecutor(min(self.threads, len(unique)), thread_name_prefix="snapshot-put") as pool:
                stored = dict(zip(unique, pool.map(self._put, unique.keys(), unique.values()), strict=True))
        return [stored[digest] for digest in hashes]

    def get(self, object_key: str) -> bytes:
        """The decoded body. Raises `ObjectMissing`, or `SnapshotQuarantined` when it does not hash to its name."""
        digest = hash_of_key(object_key)
        body = self._decode(self.store.get(object_key), object_key)
        if hashlib.sha256(body).digest() != digest:
            raise SnapshotQuarantined(
                f"snapshot {object_key} does not match its hash: its bytes changed in the store; it is no evidence, "
                "fetch the page again"
            )
        return body

    def get_many(self, object_keys: Iterable[str]) -> Iterator[tuple[str, bytes | PermanentError]]:
        """(key, body) in the order of the keys; a missing or damaged one comes as its error and the rest goes on.

        At most 4 x `threads` bodies are held at once. Raises only what a retry may help (`TransientError`).
        """

        def load(key: str) -> tuple[str, bytes | PermanentError]:
            try:
                return key, self.get(key)
            except PermanentError as error:
                return key, error

        keys = list(object_keys)
        step = 4 * self.threads
        with ThreadPoolExecutor(self.threads, thread_name_prefix="snapshot-get") as pool:
            for start in range(0, len(keys), step):
                yield from pool.map(load, keys[start : start + step])

    def is_available(self, object_keys: Sequence[str]) -> set[str]:
        """Those of the keys that are there (`crawl.ports.SnapshotIndex`); a key that is no snapshot's never is."""
        return self.store.exists([key for key in object_keys if _is_key(key)])

    def _put(self, digest: bytes, body: bytes) -> StoredSnapshot:
        if len(body) > MAX_BODY_BYTES:
            raise PermanentError(
                f"a body of {len(body):,} bytes is over the {MAX_BODY_BYTES:,} that a snapshot may have"
            )
        key = object_key_of(digest)
        packed = self._compressor().compress(body)
        is_new = self.store.put_if_absent(key, packed)
        stored = self.store.get(key)
        if not self._holds(stored, key, digest):
            if not is_new:  # somebody's damaged object: the good body is in our hands, so heal it
                self.store.put(key, packed)
                stored, is_new = self.store.get(key), True
            if not self._holds(stored, key, digest):
                raise SnapshotQuarantined(
                    f"snapshot {key}: the store {self.store.url} gave back other bytes than given"
                )
        return StoredSnapshot(digest, key, len(body), len(stored), is_new)

    def _holds(self, stored: bytes, key: str, digest: bytes) -> bool:
        try:
            return hashlib.sha256(self._decode(stored, key)).digest() == digest
        except SnapshotQuarantined:
            return False

    def _compressor(self) -> zstandard.ZstdCompressor:
        """One per thread: a compressor may not be shared."""
        if not hasattr(self._local, "compressor"):
            self._local.compressor = zstandard.ZstdCompressor(level=_LEVEL, write_checksum=True)
        return self._local.compressor

    def _decode(self, stored: bytes, key: str) -> bytes:
        if not hasattr(self._local, "decompressor"):
            self._local.decompressor = zstandard.ZstdDecompressor()
        try:
            claimed = zstandard.frame_content_size(stored)
            if claimed < 0 or claimed > MAX_BODY_BYTES:
                raise SnapshotQuarantined(f"snapshot {key} is no frame of ours: it claims {claimed:,} bytes")
            return self._local.decompressor.decompress(stored) if claimed else b""
        except zstandard.ZstdError as error:
            raise SnapshotQuarantined(
                f"snapshot {key} cannot be decompressed ({error}): fetch the page again"
            ) from error


def object_key_of(content_hash: bytes) -> str:
    """`snapshots/ab/cd/<sha256 hex>.zst`; two levels keep folders below a few thousand files at 100 million bodies."""
    digest = content_hash.hex()
    return f"snapshots/{digest[:2]}/{digest[2:4]}/{digest}{_SUFFIX}"


def hash_of_key(object_key: str) -> bytes:
    """The SHA-256 that a snapshot's key states. Raises `ObjectMissing` for a key that is no snapshot's."""
    if not _is_key(object_key):
        raise ObjectMissing(f"{object_key[:120]!r} is no snapshot's key (snapshots/ab/cd/<sha256>{_SUFFIX})")
    return bytes.fromhex(object_key.rsplit("/", 1)[1].removesuffix(_SUFFIX))


def _is_key(object_key: str) -> bool:
    try:
        digest = bytes.fromhex(object_key.rsplit("/", 1)[-1].removesuffix(_SUFFIX))
    except ValueError:
        return False
    return len(digest) == 32 and object_key == object_key_of(digest)
