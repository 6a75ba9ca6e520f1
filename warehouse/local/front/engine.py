"""The chDB engine of one data directory: handles, statements, results in pieces, cancellation.

All functions block and are called from worker threads; the engine itself runs statements of different handles in
parallel. Not here: HTTP, users, encodings. A handle costs a fraction of a millisecond, so each request without a
session gets a fresh one and nothing leaks from one request to the next.
"""

from __future__ import annotations

import contextlib
import os
import re
import select
import tempfile
import threading
import time
import xml.sax.saxutils
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from chdb import _chdb

from warehouse.local.front import lexer

#: Formats in which the engine's pieces, one after the other, are the whole. Every other one has a head or a tail.
_PIECEWISE = {"native", "tabseparated", "tsv", "csv", "rowbinary", "jsoneachrow", "jsonlines", "ndjson"}


class EngineError(Exception):
    """A ClickHouse error: its code and its text as a server words it."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code, self.message = code, message

    @classmethod
    def make(cls, code: int, name: str, text: str) -> EngineError:
        """An error of the front's own, worded like the engine's."""
        return cls(code, f"Code: {code}. DB::Exception: {text}. ({name})")

    @classmethod
    def of(cls, error: Exception) -> EngineError:
        if isinstance(error, EngineError):
            return error
        # The binding cannot decode an error text that quotes bytes of the data; the bytes are all there.
        text = error.object.decode("utf-8", "backslashreplace") if isinstance(error, UnicodeDecodeError) else str(error)
        match = re.search(r"Code: (\d+)\.", text)
        code = int(match[1]) if match else 1001
        if match:
            text = re.sub(
                rf"^(?:Code: {code}\. DB::Exception: )+", f"Code: {code}. DB::Exception: ", text[match.start() :]
            )
        else:
            text = f"Code: {code}. DB::Exception: {text} (STD_EXCEPTION)"
        return cls(code, text)


@dataclass
class Counts:
    """What one statement read and wrote so far."""

    read_rows: int = 0
    read_bytes: int = 0
    written_rows: int = 0
    written_bytes: int = 0
    result_rows: int = 0
    result_bytes: int = 0
    started: float = field(default_factory=time.monotonic)

    def summary(self) -> dict[str, str]:
        """The fields of X-ClickHouse-Summary."""
        return {
            "read_rows": str(self.read_rows),
            "read_bytes": str(self.read_bytes),
            "written_rows": str(self.written_rows),
            "written_bytes": str(self.written_bytes),
            "total_rows_to_read": "0",
            "result_rows": str(self.result_rows),
            "result_bytes": str(self.result_bytes),
            "elapsed_ns": str(int((time.monotonic() - self.started) * 1e9)),
        }


@dataclass(frozen=True)
class ExternalTable:
    """Data that a request brings along, to be read as a table while it runs."""

    name: str
    structure: str  # column definitions
    format: str
    content: bytes


class Handle:
    """One connection to the engine: its settings, current database and temporary tables are its own."""

    def __init__(self, raw: Any, base: Mapping[str, str] | None = None) -> None:
        self._raw = raw
        self._base = dict(base or {})
        self._params: dict[str, str] = {}
        self._in_force: dict[str, str] = {}  # settings that came with a request, not with a SET
        self._database: str | None = None

    def run(self, sql: str | bytes, output: str = "TabSeparated") -> Any:
        """Run one statement to its end; its result object of the binding."""
        try:
            return self._raw.query(sql, output, params=self._params)
        except (RuntimeError, UnicodeDecodeError) as error:
            raise EngineError.of(error) from None

    def prepare(self, *, database: str | None, settings: Mapping[str, str], params: Mapping[str, str]) -> None:
        """Put a request's settings, database and query parameters in force; those of the request before are undone."""
        gone = [f"{name} = {self._usual(name)}" for name in self._in_force if name not in settings]
        new = [
            f"{name} = {lexer.literal(value)}" for name, value in settings.items() if self._in_force.get(name) != value
        ]
        self._params = {}
        readonly = [s for s in new if s.startswith("readonly ")]
        new = [s for s in new if not s.startswith("readonly ")]
        for changes in (gone, new):
            if changes:
                self.run("SET " + ", ".join(changes))
        self._in_force = dict(settings)
        if database and database != self._database:
            self.run(f"USE {lexer.quoted(database)}")
            self._database = database
        if readonly:  # last: nothing can be set after it
            self.run("SET " + readonly[0])
        self._params = dict(params)

    def _usual(self, name: str) -> str:
        return lexer.literal(self._base[name]) if name in self._base else "DEFAULT"

    def forget_database(self) -> None:
        """After a USE of the client's own."""
        self._database = None

    def close(self) -> None:
        with contextlib.suppress(Exception):
            self._raw.close()

    def only_reads(self, sql: bytes) -> bool:
        """Whether the engine's own parser finds nothing in `sql` that changes anything, however it is written."""
        found = self._raw.classify_query(_text(sql))["query_class"].name
        return found in ("READ_ONLY", "UNKNOWN")  # what does not parse does not run either

    # --- external tables ---

    def create_external(self, table: ExternalTable) -> None:
        """Make a temporary table of data that came with a request."""
        self._params = {}  # those of a session's request before
        inner = list(lexer.tokens(b"(" + table.structure.encode() + b")"))
        if any(token.depth == 0 for token in inner[1:-1]):
            raise EngineError.make(
                36, "BAD_ARGUMENTS", f"The structure of external table {table.name} is not a list of columns"
            )
        name = lexer.quoted(table.name)
        self.run(f"CREATE TEMPORARY TABLE {name} ({table.structure})")
        insert = self.begin_insert(f"INSERT INTO {name}".encode(), table.format)
        try:
            self.append(insert, table.content)
            self.finish_insert(insert, Counts())
        except EngineError:
            self.cancel_insert(insert)
            raise

    def drop_external(self, table: ExternalTable) -> None:
        self.run(f"DROP TEMPORARY TABLE IF EXISTS {lexer.quoted(table.name)}")

    # --- results ---

    def pieces(self, sql: bytes, found: lexer.Statement, output: str, counts: Counts) -> Iterator[bytes]:
        """The result of a query in pieces of about half a megabyte, whatever its size."""
        if output.lower() in _PIECEWISE:
            return self._streamed(sql, output, counts)
        return self._through_pipe(sql, found, output, counts)

    def _streamed(self, sql: bytes, output: str, counts: Counts) -> Iterator[bytes]:
        stream = None
        try:
            stream = self._raw.send_query(_text(sql), output, params=self._params)
            while True:
                piece = self._raw.streaming_fetch_result(stream)
                counts.read_rows += piece.storage_rows_read()
                counts.read_bytes += piece.storage_bytes_read()
                if piece.rows_read() == 0:
                    stream = None
                    if piece.size():
                        yield piece.bytes()  # totals come after the last row
                    return
                counts.result_rows += piece.rows_read()
                counts.result_bytes += piece.size()
                yield piece.bytes()
        except (RuntimeError, UnicodeDecodeError) as error:
            stream = None
            raise EngineError.of(error) from None
        finally:
            if stream is not None:
                with contextlib.suppress(RuntimeError):
                    self._raw.streaming_cancel_query(stream)

    def _through_pipe(self, sql: bytes, found: lexer.Statement, output: str, counts: Counts) -> Iterator[bytes]:
        """Formats with a head and a tail: the engine writes the whole document into a pipe, this side reads it."""
        with tempfile.TemporaryDirectory(prefix="backlinks-front-") as folder:
            pipe = os.path.join(folder, "result")
            os.mkfifo(pipe, 0o600)
            head, tail = sql[: found.format_at], sql[found.format_at : found.end]
            clause = f" INTO OUTFILE {lexer.literal(pipe)} APPEND ".encode()
            whole = head + b"\n" + clause + (tail if found.format else f"FORMAT {output}".encode())
            outcome: list[Any] = []
            reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)

            def work() -> None:
                try:
                    outcome.append(self.run(_text(whole)))
                except BaseException as error:  # handed over to the reading thread
                    outcome.append(error)

            writer = threading.Thread(target=work, daemon=True)
            writer.start()
            try:
                while True:
                    finished = not writer.is_alive()
                    ready = select.select([reader], [], [], 0 if finished else 0.05)[0]
                    data = _read(reader) if ready else b""
                    if data:
                        counts.result_bytes += len(data)
                        yield data
                    elif finished:
                        break
                    elif ready:
                        writer.join(0.01)  # the writer has closed, or has not opened yet
            finally:
                os.close(reader)  # a writer that still writes fails with EPIPE and ends
                writer.join()
            result = outcome[0]
            if isinstance(result, BaseException):
                raise EngineError.of(result) if isinstance(result, Exception) else result
            counts.read_rows, counts.read_bytes = result.storage_rows_read(), result.storage_bytes_read()
            counts.result_rows = result.rows_read()

    # --- inserts ---

    def begin_insert(self, statement: bytes, data_format: str) -> Any:
        try:
            if self._params:  # this call of the binding takes none
                changes = ", ".join(f"param_{name} = {lexer.literal(value)}" for name, value in self._params.items())
                self._raw.query(f"SET {changes}", "Null")
            return self._raw.send_insert(_text(statement), data_format)
        except (RuntimeError, UnicodeDecodeError) as error:
            raise EngineError.of(error) from None

    def append(self, insert: Any, data: bytes) -> None:
        try:
            self._raw.insert_append(insert, data)
        except (RuntimeError, UnicodeDecodeError) as error:
            raise EngineError.of(error) from None

    def finish_insert(self, insert: Any, counts: Counts) -> None:
        try:
            result = self._raw.insert_done(insert)
        except (RuntimeError, UnicodeDecodeError) as error:
            raise EngineError.of(error) from None
        counts.written_rows, counts.written_bytes = result.rows_written(), result.bytes_written()
        counts.read_rows, counts.read_bytes = counts.written_rows, counts.written_bytes

    def cancel_insert(self, insert: Any) -> None:
        with contextlib.suppress(RuntimeError, UnicodeDecodeError):
            self._raw.insert_cancel(insert)


def _read(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 1 << 18)
    except BlockingIOError:
        return b""


def _text(sql: bytes) -> str | bytes:
    try:
        return sql.decode("utf-8")
    except UnicodeDecodeError:
        return sql


def _connect(where: str) -> Any:
    return _chdb.connect(where)  # type: ignore[attr-defined]  # the stub leaves it out


class Engine:
    """The engine over one data directory. At most one process may own a directory, at most one engine a process."""

    def __init__(self, data: Path, *, memory_bytes: int, threads: int | None = None) -> None:
        data.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._where = f"{data}/db?config-file={self._config(data, memory_bytes)}"
        self._threads = threads
        self._root = _connect(self._where)  # keeps the engine alive while there is no other handle
        version, zone = Handle(self._root).run("SELECT version(), timezone()").bytes().decode().split()
        self.version, self.timezone = version, zone

    @staticmethod
    def _config(data: Path, memory_bytes: int) -> Path:
        config = data / "config.xml"
        temporary = xml.sax.saxutils.escape(str(data / "tmp"))
        config.write_text(
            f"""<clickhouse>
  <timezone>UTC</timezone>
  <max_server_memory_usage>{memory_bytes}</max_server_memory_usage>
  <tmp_path>{temporary}/</tmp_path>
</clickhouse>
""",
            encoding="utf-8",
        )
        return config

    def handle(self) -> Handle:
        """A fresh handle."""
        # The engine is a command-line tool by descent and lets `1 + 1` stand for SELECT 1 + 1; a server does not.
        base = {"implicit_select": "0"} | ({"max_threads": str(self._threads)} if self._threads else {})
        handle = Handle(_connect(self._where), base)
        handle.run("SET " + ", ".join(f"{name} = {lexer.literal(value)}" for name, value in base.items()))
        return handle

    def kill(self, query_id: str) -> None:
        """Cancel the statement that was started under `query_id` (its log_comment); returns at once."""
        handle = self.handle()
        try:
            handle.run(f"KILL QUERY WHERE Settings['log_comment'] = {lexer.literal(query_id)} ASYNC")
        finally:
            handle.close()

    def close(self) -> None:
        with contextlib.suppress(Exception):
            self._root.close()
