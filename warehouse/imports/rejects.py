"""The rejects file: every row of an import that is invalid or repeats an earlier row of the file. (A link that the project
had before is no reject; the ledger's `import_items` lists it.) Here: writing it, whole or not at all, safe to open in a
spreadsheet. Not here: why a row was rejected (`transforms.imports.rows`).
"""

from __future__ import annotations

import os
import re
import tempfile
from pathlib import Path
from types import TracebackType
from typing import BinaryIO

import polars as pl

from transforms.imports.problems import ImportFileError

COLUMNS = ("line", "result", "reason", "source", "target", "detail")


class RejectsFile:
    """A CSV (UTF-8) with `COLUMNS`. It appears under its name when the block ends; after an error, not at all.

    Cells that a spreadsheet would run as a formula get an apostrophe in front. Raises `ImportFileError` when the file
    cannot be written (no such folder, no permission, disk full).
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.rows = 0
        self._file: BinaryIO | None = None
        self._part = path

    def __enter__(self) -> RejectsFile:
        try:
            if self.path.is_dir():
                raise IsADirectoryError(21, "it is a directory")
            # A name of its own: two imports of one file at once must not write into each other's.
            descriptor, part = tempfile.mkstemp(prefix=f".{self.path.name}.", suffix=".part", dir=self.path.parent)
            self._file, self._part = os.fdopen(descriptor, "wb"), Path(part)
            self._file.write((",".join(COLUMNS) + "\n").encode())
        except OSError as error:
            raise self._problem(error) from error
        return self

    def write(self, rows: pl.DataFrame) -> None:
        """Append rows (`transforms.imports.rows.REJECT_SCHEMA`)."""
        if not rows.height:
            return
        assert self._file is not None
        safe = [
            pl.when(pl.col(name).str.contains(r"^[\s]*[=+\-@\t\r]"))
            .then("'" + pl.col(name))
            .otherwise(pl.col(name))
            .alias(name)
            for name in ("source", "target", "detail")
        ]
        try:
            rows.with_columns(safe).select(COLUMNS).write_csv(self._file, include_header=False)
        except (OSError, pl.exceptions.ComputeError) as error:
            raise self._problem(error) from error
        self.rows += rows.height

    def flush(self) -> None:
        """Hand to the disk what was written so far: a full one shows here."""
        assert self._file is not None
        try:
            self._file.flush()
        except OSError as error:
            raise self._problem(error) from error

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._file is not None
        try:
            self._file.close()
            if kind is None:
                os.chmod(self._part, 0o666 & ~_umask())
                os.replace(self._part, self.path)
        except OSError as problem:
            if kind is None:
                raise self._problem(problem) from problem
        finally:
            self._part.unlink(missing_ok=True)

    def _problem(self, error: Exception) -> ImportFileError:
        why = getattr(error, "strerror", None) or re.sub(r"^\[Errno \d+\] ", "", str(error))
        return ImportFileError(
            f"The rejects file {self.path} cannot be written: {why}; name another place with --rejects."
        )


def _umask() -> int:
    current = os.umask(0o022)
    os.umask(current)
    return current
