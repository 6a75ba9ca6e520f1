"""The HTTP side of the front: an ASGI application. Not here: the engine, the SQL that has to be looked at, encodings.

Follows ClickHouse's HTTP interface as its clients use it: the query in `query=` and/or the body, settings and `param_*`
in the URL, sessions, content encodings both ways, X-ClickHouse-* headers, an error block at the end of a body that had
already begun (25.11+). Results and inserts move in pieces with back pressure, so memory does not grow with their size.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import contextlib
import functools
import hmac
import json
import re
import secrets
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, MutableMapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl

from warehouse.local.front import codecs, forms, lexer
from warehouse.local.front.engine import Counts, Engine, EngineError, ExternalTable, Handle

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Finish = Callable[[], Awaitable[None]]  # sends what is left of an answer

_HEAD = 1 << 20  # an answer is held back until it is this long or complete, so that most errors have a status
_LONGEST_QUERY = 64 << 20
_PIECE = 1 << 20

#: Parameters of the interface itself; every other one is a setting.
_NOT_SETTINGS = frozenset(
    {
        "query", "database", "default_format", "user", "password", "quota_key", "query_id", "session_id",
        "session_timeout",
        "session_check", "stacktrace", "compress", "decompress", "wait_end_of_query", "buffer_size",
        "client_protocol_version", "role", "enable_http_compression", "http_zlib_compression_level",
        "send_progress_in_http_headers", "http_headers_progress_interval_ms", "add_http_cors_header", "log_comment",
    }
)  # fmt: skip

#: Functions that reach outside the database: closed to readers, as READ grants on sources are on a server.
_SOURCES = re.compile(
    r"^(file|url|s3|gcs|oss|cosn|hdfs|azureblobstorage|mysql|postgresql|mongodb|redis|sqlite|odbc|jdbc|remote|remotesecure|cluster|executable"
    r"|iceberg\w*|deltalake\w*|hudi|paimon\w*|ytsaurus|arrowflight|hive|python|filecluster|urlcluster|s3cluster|hdfscluster"
    r"|azureblobstoragecluster|s3queue|chdb\w*)$"
)

#: HTTP status of an error code (src/Server/HTTP/exceptionCodeToHTTPStatus.cpp); 500 for the rest.
_STATUS = (
    {194: 401, 192: 403, 193: 403, 516: 403, 164: 403, 497: 403, 48: 501, 159: 408, 241: 500, 307: 400, 373: 500}
    | dict.fromkeys((6, 25, 26, 27, 36, 38, 41, 42, 43, 53, 62, 70, 72, 117, 131, 386, 457, 472), 400)
    | dict.fromkeys((46, 47, 50, 52, 56, 60, 63, 73, 81, 115), 404)
)


@dataclass(frozen=True)
class User:
    name: str
    password: str
    readonly: bool = False


@dataclass
class _Session:
    handle: Handle
    timeout_s: float
    last_used: float
    busy: bool = True


@dataclass
class _Request:
    """One request, taken apart."""

    method: str
    path: str
    params: dict[str, str]
    headers: Mapping[str, str]
    body: _Body
    send: Send
    query_id: str
    counts: Counts = field(default_factory=Counts)
    begun: bool = False
    tag: str = field(default_factory=lambda: secrets.token_hex(8))


class _Disconnected(Exception):
    """The client went away."""


class _Body:
    """The request body, decompressed, in pieces; after its end, whether the client is still there."""

    def __init__(self, receive: Receive, encoding: str) -> None:
        self._receive = receive
        self._decoder = codecs.Decoder(encoding) if encoding else None
        self._ended = False

    async def pieces(self) -> AsyncIterator[bytes]:
        while not self._ended:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                raise _Disconnected
            self._ended = not message.get("more_body", False)
            data = message.get("body", b"")
            try:
                if self._decoder is None:
                    if data:
                        yield data
                else:
                    for piece in self._decoder.add(data):
                        yield piece
                    if self._ended:
                        self._decoder.finish()
            except codecs.BadEncoding as error:
                raise EngineError.make(432, "UNKNOWN_COMPRESSION_METHOD", f"{error}") from error

    async def drain(self) -> None:
        """Read and drop the rest: a client that still sends would not read the answer."""
        while not self._ended:
            message = await self._receive()
            self._ended = message["type"] == "http.disconnect" or not message.get("more_body", False)

    async def gone(self) -> None:
        """Returns when the client has gone; call only after the end of the body."""
        while (await self._receive())["type"] != "http.disconnect":
            pass


class Front:
    """The application. `users` may hold any number; a `readonly` one cannot write nor reach outside the database."""

    def __init__(self, engine: Engine, users: list[User], *, threads: int = 64) -> None:
        self._engine = engine
        self._users = {user.name: user for user in users}
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="front")
        self._killers = ThreadPoolExecutor(2, thread_name_prefix="front-kill")
        self._sessions: dict[tuple[str, str], _Session] = {}
        self._running: set[str] = set()

    async def __call__(self, scope: Mapping[str, Any], receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._lifespan(receive, send)
        elif scope["type"] == "http":
            await self._http(scope, receive, send)

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        while True:
            message = await receive()
            await send({"type": message["type"] + ".complete"})
            if message["type"] == "lifespan.shutdown":
                return

    async def _http(self, scope: Mapping[str, Any], receive: Receive, send: Send) -> None:
        headers = {k.decode("latin-1").lower(): v.decode("latin-1") for k, v in scope["headers"]}
        params = dict(
            parse_qsl(
                scope["query_string"].decode("latin-1"), keep_blank_values=True, encoding="utf-8", errors="replace"
            )
        )
        encoding = headers.get("content-encoding", "").lower()
        encoding = "" if encoding == "identity" else encoding
        known = encoding if encoding in codecs.PREFERRED else ""
        query_id = params.get("query_id") or headers.get("x-clickhouse-query-id") or str(uuid.uuid4())
        request = _Request(scope["method"], scope["path"], params, headers, _Body(receive, known), send, query_id)
        try:
            if request.path in ("/ping", "/replicas_status"):
                await self._answer(request, 200, b"Ok.\n")
                return
            if request.path != "/":
                await self._answer(request, 404, f"There is no handle {request.path}\n\nUse / or /ping.\n".encode())
                return
            if encoding and not known:
                raise EngineError.make(48, "NOT_IMPLEMENTED", f"Content-Encoding {encoding} is not supported here")
            await self._query(request, self._authenticated(request))
        except _Disconnected:
            pass
        except EngineError as error:
            await self._fail(request, error)
        except Exception as error:  # a fault of the front: the client gets a sentence, the log the trace
            await self._fail(
                request,
                EngineError.make(1001, "STD_EXCEPTION", f"{type(error).__name__}: {error}"),
            )
            raise

    # --- who ---

    def _authenticated(self, request: _Request) -> User:
        name, password = "default", ""
        basic = request.headers.get("authorization", "")
        if "x-clickhouse-user" in request.headers:
            name, password = request.headers["x-clickhouse-user"], request.headers.get("x-clickhouse-key", "")
        elif basic[:6].lower() == "basic ":
            with contextlib.suppress(binascii.Error, UnicodeDecodeError):
                name, _, password = base64.b64decode(basic[6:], validate=True).decode("utf-8").partition(":")
        elif "user" in request.params:
            name, password = request.params["user"], request.params.get("password", "")
        user = self._users.get(name)
        right = hmac.compare_digest((user.password if user else "").encode(), password.encode())
        if user is None or not right:
            raise EngineError.make(
                516,
                "AUTHENTICATION_FAILED",
                f"{name}: Authentication failed: password is incorrect, or there is no user with such name",
            )
        return user

    # --- what ---

    async def _query(self, request: _Request, user: User) -> None:
        params = request.params
        if params.get("compress") == "1" or params.get("decompress") == "1":
            raise EngineError.make(
                48,
                "NOT_IMPLEMENTED",
                "compress=1 and decompress=1 are not supported here, use Accept-Encoding and Content-Encoding",
            )
        if request.query_id in self._running:
            raise EngineError.make(
                216, "QUERY_WITH_SAME_ID_IS_ALREADY_RUNNING", f"Query with id = {request.query_id} is already running"
            )
        body = request.body.pieces()
        tables = await self._form(request, body) if _is_form(request) else []
        text = params["query"].encode() + b"\n" if "query" in params else b""
        insert, text, complete = await self._read_head(body, text)
        if not text.strip():
            await self._answer(request, 200, b"Ok.\n")
            return
        self._running.add(request.query_id)
        try:
            async with self._handle(request, user, tables) as handle:
                if insert is not None:
                    finish = await self._insert(request, user, handle, insert, text[insert.data_at :], body)
                else:
                    assert complete
                    finish = await self._statement(request, user, handle, text)
        finally:
            self._running.discard(request.query_id)
        # The session and the query id are free before the client can know that its answer is complete.
        await finish()

    async def _form(self, request: _Request, body: AsyncIterator[bytes]) -> list[ExternalTable]:
        """Take a form apart: its fields join the parameters, except external tables."""
        whole = bytearray()
        async for piece in body:
            whole += piece
            if len(whole) > _LONGEST_QUERY:
                raise EngineError.make(62, "SYNTAX_ERROR", f"The form is longer than {_LONGEST_QUERY} bytes")
        try:
            found = forms.parts(bytes(whole), request.headers["content-type"])
        except forms.BadForm as error:
            raise EngineError.make(36, "BAD_ARGUMENTS", f"The request body is not a form: {error}") from error
        tables, params = [], request.params
        for part in found:
            types = params.get(f"{part.name}_types")
            columns = ", ".join(f"_{i} {name}" for i, name in enumerate((types or "").split(","), 1))
            structure = params.get(f"{part.name}_structure") or (columns if types else None)
            if structure:
                tables.append(
                    ExternalTable(part.name, structure, params.get(f"{part.name}_format") or "TSV", part.content)
                )
            else:
                params[part.name] = part.content.decode("utf-8", "replace")
        for table in tables:
            for suffix in ("structure", "types", "format"):
                params.pop(f"{table.name}_{suffix}", None)
        return tables

    async def _read_head(self, body: AsyncIterator[bytes], text: bytes) -> tuple[lexer.Insert | None, bytes, bool]:
        """Read until it is clear whether this is an INSERT with data; any other statement is read to its end."""
        buffer, complete, looked_at = bytearray(text), False, 0
        while True:
            piece = await anext(body, None)
            if piece is None:
                complete = True
            else:
                buffer += piece
            if complete or len(buffer) >= 2 * looked_at or len(buffer) >= _PIECE:
                looked_at = len(buffer)
                try:
                    insert = lexer.insert_head(bytes(buffer[:_PIECE]), complete=complete and len(buffer) <= _PIECE)
                    if insert is not None:
                        return insert, bytes(buffer), complete
                    if complete:
                        return None, bytes(buffer), True
                except lexer.MoreNeeded:
                    if complete:
                        return lexer.insert_head(bytes(buffer), complete=True), bytes(buffer), True
            if len(buffer) > _LONGEST_QUERY:
                raise EngineError.make(62, "SYNTAX_ERROR", f"The query is longer than {_LONGEST_QUERY} bytes")

    @contextlib.asynccontextmanager
    async def _handle(self, request: _Request, user: User, tables: list[ExternalTable]) -> AsyncIterator[Handle]:
        """A handle with the request's settings in force: the session's, or a fresh one that is closed afterwards."""
        params = request.params
        settings = {k: v for k, v in params.items() if k not in _NOT_SETTINGS and not k.startswith("param_")}
        settings["log_comment"] = request.query_id  # how KILL QUERY finds it: the engine gives ids of its own
        if user.readonly or (request.method == "GET" and settings.get("readonly", "0") == "0"):
            settings["readonly"] = "2"
        query_params = {k.removeprefix("param_"): v for k, v in params.items() if k.startswith("param_")}
        database = params.get("database") or request.headers.get("x-clickhouse-database")
        session = await self._session(request, user)
        handle = session.handle if session else await self._run(self._engine.handle)
        try:
            # It cannot be lifted again on the same handle: a session's is refused by `_refuse_writes` alone, unless its
            # user can never write, for whom it was set when the session began.
            if session:
                settings.pop("readonly", None)
            for table in tables:
                await self._run(functools.partial(handle.create_external, table))
            await self._run(lambda: handle.prepare(database=database, settings=settings, params=query_params))
            yield handle
        finally:
            for table in tables if session else ():
                await asyncio.shield(self._run(functools.partial(handle.drop_external, table)))
            if session:
                session.busy, session.last_used = False, time.monotonic()
            else:
                await asyncio.shield(self._run(handle.close))

    async def _session(self, request: _Request, user: User) -> _Session | None:
        now = time.monotonic()
        for key, old in list(self._sessions.items()):
            if not old.busy and now - old.last_used > old.timeout_s:
                if self._sessions.pop(key, None) is None:
                    continue  # another request that waited beside us closed it
                await self._run(old.handle.close)
        name = request.params.get("session_id")
        if not name:
            return None
        key = (user.name, name)
        session = self._sessions.get(key)
        if session is None:
            if request.params.get("session_check") == "1":
                raise EngineError.make(372, "SESSION_NOT_FOUND", f"Session {name} not found")
            timeout = float(request.params.get("session_timeout") or 60)
            handle = await self._run(self._engine.handle)
            if user.readonly:
                await self._run(lambda: handle.run("SET readonly = 2"))
            self._sessions[key] = session = _Session(handle, timeout, now)
        elif session.busy:
            raise EngineError.make(373, "SESSION_IS_LOCKED", f"Session {name} is locked by a concurrent client")
        session.busy = True
        return session

    # --- statements ---

    async def _statement(self, request: _Request, user: User, handle: Handle, text: bytes) -> Finish:
        found = lexer.statement(text)
        readonly = user.readonly or request.method == "GET" or request.params.get("readonly", "0") != "0"
        if found.several:
            raise EngineError.make(62, "SYNTAX_ERROR", "Syntax error (Multi-statements are not allowed)")
        if found.into_outfile:
            raise EngineError.make(145, "INTO_OUTFILE_NOT_ALLOWED", "INTO OUTFILE is not allowed over HTTP")
        if readonly:
            self._refuse_writes(found, await self._run(lambda: handle.only_reads(text)))
        output = (
            found.format
            or request.headers.get("x-clickhouse-format")
            or request.params.get("default_format")
            or "TabSeparated"
        )
        if found.kill:
            text = _kill_by_comment(text)
        if found.streams and output.lower() != "null":
            return await self._stream(request, handle.pieces(text, found, output, request.counts), output)
        result = await self._run(lambda: handle.run(_without_semicolon(text, found), output))
        counts = request.counts
        counts.read_rows, counts.read_bytes = result.storage_rows_read(), result.storage_bytes_read()
        counts.written_rows, counts.written_bytes = result.rows_written(), result.bytes_written()
        counts.result_rows, counts.result_bytes = result.rows_read(), result.size()
        if found.first == "USE":
            handle.forget_database()
        return lambda: self._answer(request, 200, result.bytes(), output)

    @staticmethod
    def _refuse_writes(found: lexer.Statement, only_reads: bool) -> None:
        outside = sorted(name for name in found.calls if _SOURCES.match(name))
        if outside:
            raise EngineError.make(
                497, "ACCESS_DENIED", f"Not enough privileges: table function {outside[0]} is closed to read-only users"
            )
        if not only_reads and found.first not in ("SET", "USE"):
            raise EngineError.make(164, "READONLY", f"Cannot execute query in readonly mode: {found.first}")

    async def _stream(self, request: _Request, pieces: Iterator[bytes], output: str) -> Finish:
        """Send a result as it comes; cancel the query when the client goes away. What is left to send at its end is
        returned, to be sent once the handle is free."""
        gone = asyncio.ensure_future(request.body.gone())
        encoder: codecs.Encoder | None = None
        held, ended = bytearray(), False
        try:
            while True:
                piece = await self._unless(gone, request, lambda: next(pieces, None))
                if piece is None:
                    ended = True
                    break
                if not request.begun:
                    held += piece
                    if len(held) < _HEAD:
                        continue
                    encoder = await self._begin(request, output)
                    piece, held = bytes(held), bytearray()
                data = await self._run(functools.partial(encoder.add, piece)) if encoder else piece
                if data:
                    await request.send({"type": "http.response.body", "body": data, "more_body": True})
        except EngineError as error:
            ended = True
            if not request.begun:
                raise  # a proper status is better than the rows so far
            block = _error_block(request.tag, self._worded(error))
            last = encoder.add(block) + encoder.finish() if encoder else block
        else:
            if not request.begun:
                return lambda: self._answer(request, 200, bytes(held), output)
            last = encoder.finish() if encoder else b""
        finally:
            gone.cancel()
            if not ended:
                await asyncio.shield(self._kill(request))
            await asyncio.shield(self._run(pieces.close))  # type: ignore[attr-defined]
        return lambda: request.send({"type": "http.response.body", "body": last})

    async def _unless(self, gone: asyncio.Future[None], request: _Request, work: Callable[[], Any]) -> Any:
        """Run blocking `work`; if the client goes away meanwhile, cancel the query and raise `_Disconnected`."""
        running = asyncio.ensure_future(self._run(work))
        await asyncio.wait({running, gone}, return_when=asyncio.FIRST_COMPLETED)
        if gone.done() and not gone.cancelled():
            while not running.done():
                await self._kill(request)
                await asyncio.wait({running}, timeout=0.2)
            running.exception()
            raise _Disconnected
        return await running

    # --- inserts ---

    async def _insert(
        self,
        request: _Request,
        user: User,
        handle: Handle,
        head: lexer.Insert,
        first: bytes,
        body: AsyncIterator[bytes],
    ) -> Finish:
        if user.readonly or request.method == "GET" or request.params.get("readonly", "0") != "0":
            raise EngineError.make(164, "READONLY", "Cannot execute query in readonly mode: INSERT")
        insert = await self._run(lambda: handle.begin_insert(head.statement, head.format))
        try:
            if first:
                await self._run(lambda: handle.append(insert, first))
            async for piece in body:
                await self._run(functools.partial(handle.append, insert, piece))
            await self._run(lambda: handle.finish_insert(insert, request.counts))
        except BaseException:
            await asyncio.shield(self._run(lambda: handle.cancel_insert(insert)))
            raise
        return lambda: self._answer(request, 200, b"")

    # --- answers ---

    def _headers(self, request: _Request, output: str | None) -> list[tuple[bytes, bytes]]:
        headers = {
            "Content-Type": _content_type(output),
            "X-ClickHouse-Query-Id": request.query_id,
            "X-ClickHouse-Timezone": self._engine.timezone,
            "X-ClickHouse-Server-Display-Name": "backlinks local stack (chDB)",
            "X-ClickHouse-Summary": json.dumps(request.counts.summary(), separators=(",", ":")),
            "X-ClickHouse-Exception-Tag": request.tag,
        }
        if output:
            headers["X-ClickHouse-Format"] = output
        return [(name.encode(), _header_value(value)) for name, value in headers.items()]

    def _encoding(self, request: _Request) -> str | None:
        if request.params.get("enable_http_compression", "1") in ("0", "false"):
            return None
        accepted = {
            part.split(";")[0].strip().lower()
            for part in request.headers.get("accept-encoding", "").split(",")
            if not _refused(part)
        }
        return next((name for name in codecs.PREFERRED if name in accepted), None)

    async def _begin(self, request: _Request, output: str) -> codecs.Encoder | None:
        name = self._encoding(request)
        headers = self._headers(request, output)
        if name:
            headers.append((b"Content-Encoding", name.encode()))
        request.begun = True
        await request.send({"type": "http.response.start", "status": 200, "headers": headers})
        return codecs.encoder(name) if name else None

    async def _answer(
        self,
        request: _Request,
        status: int,
        body: bytes,
        output: str | None = None,
        extra: tuple[tuple[bytes, bytes], ...] = (),
    ) -> None:
        """A whole answer at once."""
        await request.body.drain()
        headers = [*self._headers(request, output), *extra]
        name = self._encoding(request) if body else None
        if name:
            encoder = codecs.encoder(name)
            body = encoder.add(body) + encoder.finish()
            headers.append((b"Content-Encoding", name.encode()))
        headers.append((b"Content-Length", str(len(body)).encode()))
        request.begun = True
        await request.send({"type": "http.response.start", "status": status, "headers": headers})
        await request.send({"type": "http.response.body", "body": b"" if request.method == "HEAD" else body})

    async def _fail(self, request: _Request, error: EngineError) -> None:
        if request.begun:
            return
        status = _STATUS.get(error.code, 500)
        await self._answer(
            request,
            status,
            self._worded(error).encode(),
            extra=((b"X-ClickHouse-Exception-Code", str(error.code).encode()),),
        )

    def _worded(self, error: EngineError) -> str:
        return f"{error.message} (version {self._engine.version} (official build))\n"

    async def _run(self, work: Callable[[], Any]) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self._pool, work)

    async def _kill(self, request: _Request) -> None:
        """Cancel a request's query; in a thread of its own, so that it need not wait for what it is to end."""
        await asyncio.get_running_loop().run_in_executor(self._killers, self._engine.kill, request.query_id)

    def close(self) -> None:
        """Close sessions and worker threads; statements that still run are left to end with the process."""
        for session in self._sessions.values():
            if not session.busy:
                session.handle.close()
        self._killers.shutdown(wait=False, cancel_futures=True)
        self._pool.shutdown(wait=False, cancel_futures=True)


def _is_form(request: _Request) -> bool:
    return request.headers.get("content-type", "").lower().startswith("multipart/form-data")


def _error_block(tag: str, message: str) -> bytes:
    """The end of a body whose query failed after it had begun (Server/HTTP/WriteBufferFromHTTPServerResponse.cpp)."""
    text = message.encode()[: 16 * 1024]
    return (
        b"\r\n__exception__\r\n"
        + tag.encode()
        + b"\r\n"
        + text
        + str(len(text)).encode()
        + b" "
        + tag.encode()
        + b"\r\n__exception__\r\n"
    )


def _kill_by_comment(text: bytes) -> bytes:
    """KILL QUERY by the ids that this interface gives: the engine knows them as log comments."""
    out, at = [], 0
    for token in lexer.tokens(text):
        if token.word == "QUERY_ID" or token.text in (b"`query_id`", b'"query_id"'):
            out += [text[at : token.start], b"Settings['log_comment']"]
            at = token.end
    return b"".join([*out, text[at:]])


def _without_semicolon(text: bytes, found: lexer.Statement) -> bytes:
    return text[: found.end] if not found.kill else text.rstrip().rstrip(b";")


def _refused(accepted: str) -> bool:
    return bool(re.search(r";\s*q=0(\.0*)?\s*$", accepted))


def _header_value(value: str) -> bytes:
    return re.sub(r"[\r\n\0]", " ", value).encode("utf-8")


def _content_type(output: str | None) -> str:
    name = (output or "").lower()
    if not output:
        return "text/plain; charset=UTF-8"
    if name.startswith("json"):
        return "application/x-ndjson; charset=UTF-8" if "eachrow" in name else "application/json; charset=UTF-8"
    if name.startswith("csv"):
        return "text/csv; charset=UTF-8"
    if name.startswith(("tabseparated", "tsv")):
        return "text/tab-separated-values; charset=UTF-8"
    return (
        "application/octet-stream"
        if name in ("native", "rowbinary", "parquet", "arrow", "arrowstream", "orc")
        else "text/plain; charset=UTF-8"
    )
