"""`backlinks fetch URL`: what the crawler does with it, gate by gate and hop by hop. Here: options and printing. Not
here: the crawl (`crawl`). It needs no stack: its ports are in memory.

`--jsonl FILE|-`: one `{"url"}` a line in; one `{"url", "outcome", "reason", "http_status", "final_url", "hops":
[{"url", "gate", "reason", "address", "status"}], "bytes", "body_sha256"}` a line out, in the same order
and as soon as its turn comes; a bad line answers `{"url"?, "error"}` and the rest goes on.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Annotated, Any, TextIO

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from crawl import run_batch
from crawl.memory import MemoryOrigins, MemorySnapshots
from crawl.ports import FetchResult, FetchTask
from orchestration.cli.console import plain_console
from orchestration.cli.jsonl import LineError, no_lines_besides, read_rounds, write_line
from orchestration.cli.light import LightSettings
from transforms.errors import TransientError
from transforms.reasons import Outcome

GATES = ("scheme", "port", "address", "scope", "robots", "clock", "connect", "tls", "response")
"""In the order in which they are asked; see DESIGN.md §5."""

ROUND = 10_000
"""Lines that are asked together: hosts are well mixed among so many, and memory holds no more."""


class FetchInterrupted(TransientError):
    """Stopped by a signal before every URL had its answer."""


def fetch(
    url: Annotated[str | None, typer.Argument(help="absolute http or https URL", metavar="URL")] = None,
    jsonl: Annotated[
        str | None, typer.Option("--jsonl", help="fetch one {url} a line of FILE (- is stdin)", metavar="FILE")
    ] = None,
) -> None:
    """Fetch a URL through every gate and show each decision (exit code 0: a page came, 3: it did not)."""
    if jsonl is not None:
        no_lines_besides(url, "URL")
        _fetch_lines(jsonl, sys.stdout)
        return
    if url is None:
        raise typer.BadParameter("name a URL, or give --jsonl FILE", param_hint="URL")
    sink = _InOrder()
    _run([FetchTask(0, url)], sink, MemoryOrigins())
    result = sink.taken[0]
    _print(result, plain_console())
    if result.outcome not in (Outcome.FETCHED, Outcome.NOT_MODIFIED):
        raise typer.Exit(3)


def _run(tasks: Sequence[FetchTask], sink: _InOrder, origins: MemoryOrigins) -> None:
    settings = LightSettings()
    summary = run_batch(
        tasks,
        settings=settings.crawl,
        sink=sink,
        snapshots=MemorySnapshots(),
        origins=origins,
        clock=settings.clock,
    )
    if summary.stopped is not None:
        raise FetchInterrupted(
            f"Stopped by {summary.stopped}: {summary.unfinished} of {summary.tasks} URLs have no answer."
        )


def _fetch_lines(source: str, out: TextIO) -> None:
    """Round by round; what is known of origins (clocks, back-offs, robots.txt) goes from one to the next."""
    origins = MemoryOrigins()
    for requests in read_rounds(source, ROUND):
        answers: dict[int, dict[str, Any]] = {}
        tasks: list[FetchTask] = []
        for number, request in enumerate(requests):
            asked = None if isinstance(request, LineError) else request.get("url")
            if isinstance(request, LineError):
                answers[number] = {"error": str(request)}
            elif not isinstance(asked, str) or not asked:
                answers[number] = {"url": asked, "error": "url must be a non-empty string"}
            else:
                tasks.append(FetchTask(number, asked))
        sink = _InOrder(answers, out)
        if tasks:
            _run(tasks, sink, origins)
        sink.flush(len(requests))


class _InOrder:
    """A sink that forgets bodies and, given a stream, writes answers as soon as all before them are written."""

    def __init__(self, answers: dict[int, dict[str, Any]] | None = None, out: TextIO | None = None) -> None:
        self._answers = answers or {}
        self._out = out
        self._next = 0
        self.taken: list[FetchResult] = []

    def commit(self, results: Sequence[FetchResult]) -> None:
        for result in results:
            if self._out is None:
                self.taken.append(result)
            else:
                self._answers[result.task.key] = as_json(result)
        if self._out is not None:
            self.flush()

    def flush(self, until: int | None = None) -> None:
        assert self._out is not None
        while self._next in self._answers and (until is None or self._next < until):
            write_line(self._answers.pop(self._next), self._out)
            self._next += 1
        self._out.flush()


def as_json(result: FetchResult) -> dict[str, Any]:
    """The answer of one URL."""
    return {
        "url": result.task.url,
        "outcome": result.outcome.value,
        "reason": result.reason.value,
        "http_status": result.http_status,
        "final_url": result.final_url,
        "hops": [
            {"url": hop.url, "gate": hop.gate, "reason": hop.reason.value, "address": hop.address, "status": hop.status}
            for hop in result.hops
        ],
        "bytes": len(result.body or b""),
        "body_sha256": result.content_hash.hex() if result.content_hash is not None else None,
    }


def _print(result: FetchResult, console: Console) -> None:
    table = Table(title=result.task.url, title_justify="left", show_lines=True)
    for heading in ("hop", "URL", "gates", "address", "status"):
        table.add_column(heading, overflow="fold")
    for number, hop in enumerate(result.hops, 1):
        passed = GATES[: GATES.index(hop.gate)] if hop.gate in GATES else ()
        if not hop.url.startswith("https:"):
            passed = tuple(gate for gate in passed if gate != "tls")
        is_fine = hop.reason.value in ("ok", "not_modified")
        last = Text(f"{hop.gate}: {hop.reason.value}", "green" if is_fine else "red")
        gates = Text("\n").join([*(Text(gate, "green") for gate in passed), last])
        table.add_row(str(number), hop.url, gates, hop.address or "-", str(hop.status or "-"))
    console.print(table)
    for name, value in (
        ("outcome", f"{result.outcome.value} ({result.reason.value})"),
        ("why", result.detail),
        ("final URL", result.final_url),
        (
            "body",
            f"{len(result.body):,} bytes, sha256 {result.content_hash.hex()}"
            if result.body and result.content_hash
            else None,
        ),
        ("type", result.content_type),
        ("on the wire", f"{result.wire_bytes:,} bytes in {result.elapsed_ms} ms, attempt {result.attempt}"),
        ("robots.txt", f"version {result.robots_version}" if result.robots_version else None),
        ("warnings", ", ".join(result.warnings) or None),
    ):
        if value is not None:
            console.print(f"  {name:<12}{value}", soft_wrap=True)
