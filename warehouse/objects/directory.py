"""A directory as object store. Here: atomic writes on a POSIX file system. Not here: what is stored.

A write goes to a hidden temporary file in the object's own folder, is flushed to the disk and only then takes its name
(`rename`, or `link` when it must not replace), so that a crash at any moment leaves the old object or the new one. What
a killed writer leaves behind is hidden from every reader and removed by `sweep`.
"""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn
from uuid import uuid4

import pyarrow as pa

from transforms.errors import PermanentError
from warehouse.objects.store import ObjectInfo, ObjectMissing, StoreDenied, StoreFull, check_key

_TEMPORARY = ".tmp-"
_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_DENIED = {errno.EACCES, errno.EPERM, errno.EROFS}
_ABSENT = {errno.ENOENT, errno.ENOTDIR, errno.EISDIR}


class DirectoryStore:
    """Objects are files below `folder`, which is made when it is missing."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder.resolve()
        self.url = str(self.folder)
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            _explain(error, f"the object store's folder {self.folder}", "could not be made")

    def put(self, key: str, data: bytes) -> None:
        self._write(check_key(key), data, replace=True)

    def put_if_absent(self, key: str, data: bytes) -> bool:
        if self._path(check_key(key)).is_file():
            return False
        return self._write(key, data, replace=False)

    def get(self, key: str) -> bytes:
        try:
            return self._path(check_key(key)).read_bytes()
        except OSError as error:
            self._missing_or(error, key)

    def open(self, key: str) -> pa.NativeFile:
        try:
            return pa.memory_map(str(self._path(check_key(key))), "r")
        except OSError as error:
            self._missing_or(error, key)

    def exists(self, keys: Sequence[str]) -> set[str]:
        return {key for key in keys if self._path(check_key(key)).is_file()}

    def size(self, key: str) -> int:
        try:
            status = self._path(check_key(key)).stat()
        except OSError as error:
            self._missing_or(error, key)
        return status.st_size

    def list(self, prefix: str = "") -> Iterator[ObjectInfo]:
        # Only the deepest whole folder of the prefix is walked; the rest of it filters names.
        start = prefix.rpartition("/")[0]
        found = []
        for folder, folders, files in os.walk(self.folder / start if start else self.folder):
            above = f"{Path(folder).relative_to(self.folder).as_posix()}/".removeprefix("./")
            folders[:] = [
                name
                for name in folders
                if not name.startswith(".")
                and (f"{above}{name}/".startswith(prefix) or prefix.startswith(f"{above}{name}"))
            ]
            for name in files:
                path = Path(folder, name)
                key = path.relative_to(self.folder).as_posix()
                if key.startswith(prefix) and not name.startswith("."):
                    with suppress(FileNotFoundError):  # deleted while we looked
                        found.append(ObjectInfo(key, path.stat().st_size))
        yield from sorted(found)

    def delete(self, keys: Iterable[str]) -> None:
        for key in keys:
            try:
                self._path(check_key(key)).unlink(missing_ok=True)
            except OSError as error:
                if error.errno not in _ABSENT:
                    _explain(error, f"object {key} in {self.folder}", "could not be deleted")

    def locate(self, key: str) -> str:
        return str(self._path(check_key(key)))

    def scan_options(self) -> dict[str, Any] | None:
        return None

    def sweep(self, older_than_s: float = 86_400.0) -> int:
        """Remove temporary files that killed writers left, once they are `older_than_s` old. Returns how many."""
        removed, limit = 0, time.time() - older_than_s
        for folder, _, files in os.walk(self.folder):
            for name in files:
                if name.startswith(_TEMPORARY):
                    path = Path(folder, name)
                    with suppress(FileNotFoundError):
                        if path.stat().st_mtime <= limit:
                            path.unlink()
                            removed += 1
        return removed

    def _path(self, key: str) -> Path:
        return self.folder / key

    def _write(self, key: str, data: bytes, *, replace: bool) -> bool:
        path = self._path(key)
        temporary = path.parent / f"{_TEMPORARY}{uuid4().hex}"
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with temporary.open("xb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            if replace:
                temporary.replace(path)
            else:
                try:
                    path.hardlink_to(temporary)
                except FileExistsError:
                    return False
            _flush_folder(path.parent)
        except OSError as error:
            _explain(error, f"object {key} ({len(data):,} bytes) in {self.folder}", "could not be written")
        finally:
            with suppress(OSError):
                temporary.unlink(missing_ok=True)
        return True

    def _missing_or(self, error: OSError, key: str) -> NoReturn:
        if error.errno in _ABSENT or isinstance(error, FileNotFoundError):
            raise ObjectMissing(f"object {key} is not in the store {self.folder}") from error
        _explain(error, f"object {key} in {self.folder}", "could not be read")


def _flush_folder(folder: Path) -> None:
    """Make the new name itself survive a power cut."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _explain(error: OSError, what: str, happened: str) -> NoReturn:
    if error.errno in _FULL:
        raise StoreFull(
            f"{what} {happened}: the disk is full; nothing of it was kept: free space there and run again"
        ) from error
    if error.errno in _DENIED:
        raise StoreDenied(
            f"{what} {happened}: this user may not write there; change its owner or BACKLINKS_OBJECTS__URL"
        ) from error
    raise PermanentError(f"{what} {happened}: {error.strerror or error}; check the disk") from error
