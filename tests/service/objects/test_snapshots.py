"""Page bodies over both stores: one object per body, verified on the way in and on the way out."""

from __future__ import annotations

import hashlib
import os

import pytest
import zstandard

from transforms.errors import PermanentError
from warehouse.objects import ObjectMissing, ObjectStore
from warehouse.snapshots import SnapshotQuarantined, SnapshotStore, hash_of_key, object_key_of

pytestmark = pytest.mark.service


@pytest.fixture
def snapshots(object_store: ObjectStore) -> SnapshotStore:
    return SnapshotStore(object_store)


def test_the_key_is_the_hash_of_the_body(snapshots: SnapshotStore) -> None:
    (stored,) = snapshots.put_many([b"abc"])
    # FIPS 180-2, appendix B.1
    assert stored.content_hash.hex() == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    assert stored.object_key == f"snapshots/ba/78/{stored.content_hash.hex()}.zst"
    assert hash_of_key(stored.object_key) == stored.content_hash
    assert (stored.uncompressed_bytes, stored.is_new) == (3, True)
    assert stored.stored_bytes == snapshots.store.size(stored.object_key)
    assert zstandard.decompress(snapshots.store.get(stored.object_key)) == b"abc"
    assert snapshots.get(stored.object_key) == b"abc"


def test_equal_bodies_are_stored_once_and_results_keep_the_order(snapshots: SnapshotStore) -> None:
    bodies = [b"<p>one</p>" * 50, b"", b"<p>one</p>" * 50, b"two"]
    first = snapshots.put_many(bodies)
    assert [item.content_hash for item in first] == [hashlib.sha256(body).digest() for body in bodies]
    assert [item.is_new for item in first] == [True] * 4
    assert len(list(snapshots.store.list())) == 3
    again = snapshots.put_many(bodies)
    assert [item.object_key for item in again] == [item.object_key for item in first]
    assert [item.is_new for item in again] == [False] * 4
    assert snapshots.put_many([]) == []
    assert snapshots.get(first[1].object_key) == b""


def test_many_small_bodies(snapshots: SnapshotStore) -> None:
    bodies = [os.urandom(40) + b"<a href=/>" * 100 for _ in range(200)]
    stored = snapshots.put_many(bodies)
    keys = [item.object_key for item in stored]
    assert [body for _, body in snapshots.get_many(keys)] == bodies
    assert snapshots.is_available(keys) == set(keys)


def test_a_changed_body_is_quarantined_not_returned(snapshots: SnapshotStore) -> None:
    good, other, torn, bomb = snapshots.put_many([b"good", b"other", b"torn" * 100, b"bomb"])
    snapshots.store.put(other.object_key, zstandard.compress(b"not what was fetched"))
    snapshots.store.put(torn.object_key, snapshots.store.get(torn.object_key)[:-6])
    snapshots.store.put(bomb.object_key, zstandard.compress(b"\0" * (65 * 1024 * 1024)))
    for damaged in (other, torn, bomb):
        with pytest.raises(SnapshotQuarantined, match=damaged.object_key):
            snapshots.get(damaged.object_key)
    missing = object_key_of(b"\0" * 32)
    got = dict(snapshots.get_many([good.object_key, other.object_key, missing]))
    assert got[good.object_key] == b"good"
    assert isinstance(got[other.object_key], SnapshotQuarantined)
    assert isinstance(got[missing], ObjectMissing)


def test_a_damaged_object_is_healed_by_the_next_fetch_of_that_body(snapshots: SnapshotStore) -> None:
    (stored,) = snapshots.put_many([b"body"])
    snapshots.store.put(stored.object_key, b"rubbish")
    (healed,) = snapshots.put_many([b"body"])
    assert healed.is_new
    assert snapshots.get(stored.object_key) == b"body"


def test_a_store_that_gives_back_other_bytes_is_no_evidence(
    snapshots: SnapshotStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshots.store, "get", lambda key: zstandard.compress(b"liar"))
    with pytest.raises(SnapshotQuarantined, match="gave back other bytes"):
        snapshots.put_many([b"truth"])


def test_availability_is_what_the_crawler_asks_before_a_conditional_request(snapshots: SnapshotStore) -> None:
    (stored,) = snapshots.put_many([b"x"])
    absent = object_key_of(b"\1" * 32)
    wrong = ["snapshots/00/00/zz.zst", "datasets/x", "", "../etc", stored.object_key.replace(".zst", "")]
    assert snapshots.is_available([stored.object_key, absent, *wrong]) == {stored.object_key}
    with pytest.raises(PermanentError, match="is no snapshot's key"):
        snapshots.get("datasets/x")
