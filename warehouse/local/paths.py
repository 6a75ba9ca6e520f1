"""Where the stack keeps things. Here: the one helper that resolves a relative folder, and names in the stack folder.

Not here: what is written into the folders.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from warehouse.local.config import StackSettings
from warehouse.local.errors import StackError


def project_root() -> Path:
    """The checkout this package lies in (where `pyproject.toml` is); the working directory for an installed copy."""
    checkout = Path(__file__).resolve().parents[2]
    return checkout if (checkout / "pyproject.toml").is_file() else Path.cwd()


def resolve(path: Path | str) -> Path:
    """An absolute path: `~` expanded, a relative path taken from `project_root()`, never from the working directory."""
    expanded = Path(path).expanduser()
    return expanded if expanded.is_absolute() else project_root() / expanded


def cache_folder(settings: StackSettings) -> Path:
    """Folder of downloaded programs. Falls back to the stack folder where the home directory cannot be written."""
    if settings.cache is not None:
        return resolve(settings.cache)
    home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    shared = Path(home) / "backlinks"
    try:
        shared.mkdir(parents=True, exist_ok=True)
        writable = os.access(shared, os.W_OK)
    except OSError:
        writable = False
    return shared if writable else resolve(settings.folder) / "cache"


@dataclass(frozen=True)
class StackFolder:
    """Names inside one stack folder (absolute)."""

    root: Path

    @classmethod
    def of(cls, settings: StackSettings) -> StackFolder:
        return cls(resolve(settings.folder))

    @property
    def logs(self) -> Path:
        return self.root / "logs"

    @property
    def run(self) -> Path:
        return self.root / "run"

    @property
    def mysql_data(self) -> Path:
        return self.root / "mysql"

    @property
    def clickhouse_data(self) -> Path:
        return self.root / "clickhouse"

    def log(self, part: str) -> Path:
        return self.logs / f"{part}.log"

    def pid_file(self, part: str) -> Path:
        return self.run / f"{part}.json"

    def create(self) -> None:
        """Make the folders; a folder that cannot be written is one `StackError`."""
        with explained(f"the stack folder {self.root}"):
            for folder in (self.root, self.logs, self.run):
                folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            probe = self.run / ".writable"
            probe.write_bytes(b"x" * 4096)
            probe.unlink()


@contextmanager
def explained(what: str, setting: str = "BACKLINKS_STACK__FOLDER") -> Iterator[None]:
    """Turn an `OSError` on `what` (a phrase such as 'the stack folder /x') into one clear `StackError`."""
    try:
        yield
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise StackError(
            f"Cannot write {what}: {reason}; free some space, fix its permissions, or choose another with {setting}."
        ) from error
