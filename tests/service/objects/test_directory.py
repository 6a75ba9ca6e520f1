"""What a directory must survive: a full disk, a killed writer, a folder that is not ours."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from transforms.errors import PermanentError
from warehouse.objects import DirectoryStore, StoreDenied, StoreFull

pytestmark = pytest.mark.service


def files_below(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


def test_a_full_disk_is_one_sentence_and_leaves_nothing(tmp_path: Path) -> None:
    """RLIMIT_FSIZE stops the write in the middle of the file, as a full disk does (EFBIG in place of ENOSPC)."""
    code = f"""
import resource, signal
from pathlib import Path
from warehouse.objects import DirectoryStore, StoreFull
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
store = DirectoryStore(Path({str(tmp_path)!r}))
store.put("a/old", b"kept")
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
for write in (store.put, store.put_if_absent):
    try:
        write("a/big", b"x" * 5000)
    except StoreFull as error:
        print(error)
try:
    store.put("a/old", b"y" * 5000)
except StoreFull:
    print(store.get("a/old"))
"""
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=Path.cwd())
    lines = answer.stdout.splitlines()
    assert lines[0] == lines[1]
    assert "object a/big (5,000 bytes)" in lines[0]
    assert "the disk is full; nothing of it was kept" in lines[0]
    assert lines[2] == "b'kept'", "the old object stays when its replacement does not fit"
    assert files_below(tmp_path) == {"a/old"}


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_enospc_itself_is_recognised(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_space(descriptor: int) -> None:
        with open("/dev/full", "wb", buffering=0) as full:
            full.write(b"x")

    monkeypatch.setattr("warehouse.objects.directory.os.fsync", no_space)
    with pytest.raises(StoreFull, match="the disk is full"):
        DirectoryStore(tmp_path).put("k", b"data")
    assert files_below(tmp_path) == set()


def test_a_killed_writer_leaves_nothing_that_can_be_seen_and_sweep_removes_it(tmp_path: Path) -> None:
    code = f"""
import os
from pathlib import Path
import warehouse.objects.directory as directory
directory.os.fsync = lambda descriptor: os.kill(os.getpid(), 9)
directory.DirectoryStore(Path({str(tmp_path)!r})).put("a/half", b"x" * 100000)
"""
    assert subprocess.run([sys.executable, "-c", code], check=False, cwd=Path.cwd()).returncode == -9
    store = DirectoryStore(tmp_path)
    assert len(files_below(tmp_path)) == 1, "the temporary file is there"
    assert list(store.list()) == []
    assert store.exists(["a/half"]) == set()
    assert store.sweep(older_than_s=3600) == 0, "a young one may still be written"
    assert store.sweep(older_than_s=0) == 1
    assert files_below(tmp_path) == set()


def test_a_reader_never_sees_a_part_while_an_object_is_replaced(tmp_path: Path) -> None:
    store = DirectoryStore(tmp_path)
    bodies = [bytes([letter]) * 200_000 for letter in b"abc"]
    store.put("k", bodies[0])
    done = threading.Event()

    def replace() -> None:
        for turn in range(60):
            store.put("k", bodies[turn % 3])
        done.set()

    writer = threading.Thread(target=replace)
    writer.start()
    while not done.is_set():
        assert store.get("k") in bodies
        assert [info.size for info in store.list()] == [200_000]
    writer.join()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_we_may_not_write(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(StoreDenied, match="may not write there"):
        DirectoryStore(tmp_path).put("a/k", b".")


def test_a_file_in_the_place_of_the_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(PermanentError, match=r"object store's folder .*file could not be made"):
        DirectoryStore(tmp_path / "file")
