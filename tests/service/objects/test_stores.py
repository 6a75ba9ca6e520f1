"""What every object store promises, over a directory and over a real S3 server."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from pydantic import SecretStr

from transforms.errors import PermanentError
from warehouse.objects import (
    BadKey,
    ObjectInfo,
    ObjectMissing,
    ObjectStore,
    StoreDenied,
    StoreUnavailable,
    open_store,
)
from warehouse.objects.config import ObjectStoreSettings

pytestmark = pytest.mark.service


def test_put_get_replace_and_size(object_store: ObjectStore) -> None:
    object_store.put("a/b=1/c.bin", b"one")
    object_store.put("a/b=1/c.bin", b"second")
    assert object_store.get("a/b=1/c.bin") == b"second"
    assert object_store.size("a/b=1/c.bin") == 6
    assert object_store.open("a/b=1/c.bin").read() == b"second"


def test_an_empty_object_is_an_object(object_store: ObjectStore) -> None:
    object_store.put("empty", b"")
    assert object_store.get("empty") == b""
    assert object_store.exists(["empty"]) == {"empty"}


def test_put_if_absent_keeps_what_is_there(object_store: ObjectStore) -> None:
    assert object_store.put_if_absent("k", b"first") is True
    assert object_store.put_if_absent("k", b"other") is False
    assert object_store.get("k") == b"first"


def test_of_many_racing_writers_one_wins(object_store: ObjectStore) -> None:
    with ThreadPoolExecutor(8) as pool:
        wrote = list(pool.map(lambda n: object_store.put_if_absent("race", b"writer %d" % n), range(24)))
    assert sum(wrote) == 1
    assert object_store.get("race") == b"writer %d" % wrote.index(True)


def test_exists_answers_in_bulk(object_store: ObjectStore) -> None:
    for name in ("x/1", "x/2"):
        object_store.put(name, b".")
    assert object_store.exists(["x/1", "x/2", "x/3", "y", "x/1"]) == {"x/1", "x/2"}
    assert object_store.exists([]) == set()
    assert object_store.exists(["x"]) == set(), "a folder is no object"


def test_list_is_sorted_and_takes_any_prefix(object_store: ObjectStore) -> None:
    for name in ("p/b", "p/a/2", "p/a/10", "pq", "z"):
        object_store.put(name, b"12")
    assert [info.key for info in object_store.list("p/")] == ["p/a/10", "p/a/2", "p/b"]
    assert [info.key for info in object_store.list("p")] == ["p/a/10", "p/a/2", "p/b", "pq"]
    assert [info.key for info in object_store.list("p/a/1")] == ["p/a/10"]
    assert list(object_store.list("nothing/here")) == []
    assert list(object_store.list())[-1] == ObjectInfo("z", 2)


def test_delete_is_idempotent(object_store: ObjectStore) -> None:
    object_store.put("d/1", b".")
    object_store.put("d/2", b".")
    object_store.delete(["d/1", "d/none", "d/1"])
    object_store.delete([])
    assert [info.key for info in object_store.list()] == ["d/2"]


def test_what_is_missing_is_named(object_store: ObjectStore) -> None:
    for read in (object_store.get, object_store.size, object_store.open):
        with pytest.raises(ObjectMissing, match="no/such"):
            read("no/such")
    object_store.put("file", b".")
    with pytest.raises(ObjectMissing):
        object_store.get("file/below")


@pytest.mark.parametrize(
    "key",
    [
        "",
        "/etc/passwd",
        "a//b",
        "../up",
        "a/../../up",
        "a/.",
        ".hidden",
        "a/.tmp-1",
        "a b",
        "ü",
        "a\n",
        "-a",
        "a/",
        "a" * 901,
    ],
)
def test_keys_that_could_escape_or_hide_are_refused(object_store: ObjectStore, key: str) -> None:
    for attempt in (
        lambda: object_store.put(key, b"."),
        lambda: object_store.put_if_absent(key, b"."),
        lambda: object_store.get(key),
        lambda: object_store.exists([key]),
        lambda: object_store.delete([key]),
    ):
        with pytest.raises(BadKey):
            attempt()


def test_a_relative_directory_is_below_the_callers_root_and_an_absolute_one_is_not(tmp_path: Path) -> None:
    open_store(ObjectStoreSettings(url=".stack/objects"), tmp_path).put("k", b"v")
    assert (tmp_path / ".stack/objects/k").read_bytes() == b"v"
    open_store(ObjectStoreSettings(url=str(tmp_path / "abs")), tmp_path / "elsewhere").put("k", b"v")
    assert (tmp_path / "abs/k").read_bytes() == b"v"


def test_an_unknown_scheme_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PermanentError, match="gs://"):
        open_store(ObjectStoreSettings(url="gs://bucket"), tmp_path)


def test_two_prefixes_of_one_bucket_do_not_see_each_other(s3_settings: ObjectStoreSettings, tmp_path: Path) -> None:
    one = open_store(s3_settings, tmp_path)
    other = open_store(s3_settings.model_copy(update={"url": s3_settings.url + "-2"}), tmp_path)
    one.put("k", b"1")
    other.put("k", b"2")
    assert (one.get("k"), other.get("k")) == (b"1", b"2")
    assert [info.key for info in one.list()] == ["k"]


def test_a_missing_bucket_is_one_clear_sentence(s3_settings: ObjectStoreSettings, tmp_path: Path) -> None:
    store = open_store(s3_settings.model_copy(update={"url": "s3://no-such-bucket-here"}), tmp_path)
    with pytest.raises(StoreDenied, match=r"s3://no-such-bucket-here answers NoSuchBucket; check that the bucket"):
        store.put("k", b".")


def test_a_server_that_is_down_may_be_retried_and_leaks_no_secret(tmp_path: Path) -> None:
    settings = ObjectStoreSettings(
        url="s3://bucket",
        endpoint_url="http://127.0.0.1:9",
        access_key=SecretStr("id-x"),
        secret_key=SecretStr("hush-hush"),
    )
    store = open_store(settings, tmp_path)
    with pytest.raises(StoreUnavailable, match="does not answer") as caught:
        store.get("k")
    assert "hush" not in str(caught.value)


def test_more_keys_than_one_delete_or_list_request_takes(s3_settings: ObjectStoreSettings, tmp_path: Path) -> None:
    store = open_store(s3_settings, tmp_path)
    keys = [f"many/{number:04d}" for number in range(1_050)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda key: store.put(key, b"."), keys))
    assert [info.key for info in store.list("many/")] == keys
    store.delete(keys)
    assert list(store.list()) == []
