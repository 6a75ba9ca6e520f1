"""Parsing in processes that can be killed: a page is a CPU bomb until proven otherwise. Here: chunks of pages out, Arrow
tables back, a CPU deadline per page. Not here: parsing (`transforms.html`), reading snapshots, writing manifests.

Each worker arms a CPU timer before a page and disarms it after; when it fires the kernel ends the process, in the middle of
C code if need be. The page that was at work becomes an outcome (`parse_timeout`, or `parse_failed` when the process died
otherwise), the rest of its chunk goes to a fresh worker, and the batch goes on.
"""

from __future__ import annotations

import gc
import os
import signal
import tempfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import trio
import trio_parallel

from transforms.html import AGENT, ParsedPage, ParseLimits, failed_page, manifest_id, manifest_tables, parse_page
from transforms.reasons import Reason

CHUNK_PAGES = 64
CHUNK_BYTES = 4 * 1024 * 1024
_WALL_FACTOR = 20
"""A worker that gets no CPU at all is given up after this many times a page's CPU limit without progress."""

Emit = Callable[[pa.Table, pa.Table], None]
"""Takes `PAGE_MANIFESTS` and `LINK_MANIFESTS` rows of some pages; called in the order in which chunks are done."""


@dataclass(frozen=True, slots=True)
class ParseJob:
    """One body to parse. `key` becomes `source_url_id`."""

    key: int
    body: bytes
    document_url: str
    content_hash: bytes
    content_type: str | None = None
    x_robots_tag: tuple[str, ...] = ()
    link_header: tuple[str, ...] = ()
    refresh_header: str | None = None
    body_truncated: bool = False
    fetched_at: datetime | None = None

    @property
    def manifest_id(self) -> bytes:
        return manifest_id(
            self.content_hash,
            self.document_url,
            content_type=self.content_type,
            x_robots_tag=self.x_robots_tag,
            link_header=self.link_header,
            refresh_header=self.refresh_header,
        )


@dataclass(slots=True)
class ParseCounts:
    """What came of a batch: pages by reason, links, and workers that had to be killed."""

    pages: int = 0
    links: int = 0
    reasons: dict[str, int] = field(default_factory=dict)
    killed: int = 0


async def parse_many(
    jobs: Iterable[ParseJob],
    emit: Emit,
    *,
    workers: int | None = None,
    limits: ParseLimits | None = None,
    agent: str = AGENT,
) -> ParseCounts:
    """Parses every job and hands the rows to `emit`, chunk by chunk; one row per job, whatever happens to it.

    Jobs are drawn only as workers become free, so memory is bounded by `workers` chunks. Cancelling kills the workers.
    """
    limits = limits or ParseLimits()
    slots = trio.CapacityLimiter(workers or os.cpu_count() or 1)
    counts = ParseCounts()
    with tempfile.TemporaryDirectory(prefix="backlinks-parse-") as folder:
        async with trio.open_nursery() as nursery:
            for number, chunk in enumerate(_chunks(jobs)):
                await slots.acquire_on_behalf_of(number)
                work = partial(_parse_chunk, chunk, Path(folder) / str(number), emit, counts, limits, agent)
                nursery.start_soon(_in_slot, work, slots, number)
    return counts


def run_parse_many(
    jobs: Iterable[ParseJob],
    emit: Emit,
    *,
    workers: int | None = None,
    limits: ParseLimits | None = None,
    agent: str = AGENT,
) -> ParseCounts:
    """`parse_many` for callers that are not in trio."""
    return trio.run(partial(parse_many, jobs, emit, workers=workers, limits=limits, agent=agent))


def parse_one(job: ParseJob, *, limits: ParseLimits | None = None, agent: str = AGENT) -> ParsedPage:
    """One page, in a worker all the same: for people and filters. The worker stays for the next call."""
    return trio.run(_parse_one, job, limits or ParseLimits(), agent)


async def _parse_one(job: ParseJob, limits: ParseLimits, agent: str) -> ParsedPage:
    try:
        with trio.fail_after(limits.cpu_s * _WALL_FACTOR):
            return await trio_parallel.run_sync(_deadline_parse, job, limits, agent, kill_on_cancel=True)
    except trio_parallel.BrokenWorkerError as error:
        return failed_page(job.document_url, len(job.body), _reason_of_death(error))
    except trio.TooSlowError:
        return failed_page(job.document_url, len(job.body), Reason.PARSE_TIMEOUT)


def _chunks(jobs: Iterable[ParseJob]) -> Iterator[list[ParseJob]]:
    chunk: list[ParseJob] = []
    size = 0
    for job in jobs:
        if chunk and (len(chunk) >= CHUNK_PAGES or size + len(job.body) > CHUNK_BYTES):
            yield chunk
            chunk, size = [], 0
        chunk.append(job)
        size += len(job.body)
    if chunk:
        yield chunk


async def _in_slot(work: Callable[[], object], slots: trio.CapacityLimiter, number: int) -> None:
    try:
        await work()  # type: ignore[misc]
    finally:
        slots.release_on_behalf_of(number)


async def _parse_chunk(
    chunk: list[ParseJob], progress: Path, emit: Emit, counts: ParseCounts, limits: ParseLimits, agent: str
) -> None:
    """Parses a chunk, however many workers it costs."""
    waiting = [chunk]
    while waiting:
        part = waiting.pop()
        progress.write_bytes(b"")  # noqa: ASYNC240 - a few bytes in a temporary folder
        try:
            with trio.fail_after(limits.cpu_s * _WALL_FACTOR + len(part)):
                tables = await trio_parallel.run_sync(
                    _work, part, str(progress), limits, agent, kill_on_cancel=True, limiter=trio.CapacityLimiter(1)
                )
            _count(tables, counts)
            emit(*tables)
            continue
        except trio_parallel.BrokenWorkerError as error:
            reason = _reason_of_death(error)
        except trio.TooSlowError:
            reason = Reason.PARSE_TIMEOUT
        counts.killed += 1
        # The progress file says which page was at work; the ones before it are parsed again, the ones behind it next.
        at = min(int(progress.read_bytes() or b"0"), len(part) - 1)  # noqa: ASYNC240
        culprit = part[at]
        tables = _tables([culprit], [failed_page(culprit.document_url, len(culprit.body), reason)])
        _count(tables, counts)
        emit(*tables)
        waiting += [rest for rest in (part[at + 1 :], part[:at]) if rest]


def _reason_of_death(error: BaseException) -> Reason:
    process: Any = error.args[-1] if error.args else None
    if hasattr(process, "join"):
        process.join(5)
    code = getattr(process, "exitcode", None)
    return Reason.PARSE_TIMEOUT if code in (-signal.SIGPROF, -signal.SIGXCPU) else Reason.PARSE_FAILED


def _count(tables: tuple[pa.Table, pa.Table], counts: ParseCounts) -> None:
    pages, links = tables
    counts.pages += pages.num_rows
    counts.links += links.num_rows
    for reason in pages.column("reason").to_pylist():
        counts.reasons[reason] = counts.reasons.get(reason, 0) + 1


# -- in the worker ---------------------------------------------------------------------------------------------------


def _work(jobs: list[ParseJob], progress: str, limits: ParseLimits, agent: str) -> tuple[pa.Table, pa.Table]:
    gc.disable()  # pages make no cycles; a collection in mid-chunk would walk all their rows for nothing
    pages: list[ParsedPage] = []
    descriptor = os.open(progress, os.O_WRONLY)
    try:
        for at, job in enumerate(jobs):
            os.pwrite(descriptor, b"%08d" % at, 0)
            pages.append(_deadline_parse(job, limits, agent))
    finally:
        os.close(descriptor)
        gc.enable()
    return _tables(jobs, pages)


def _deadline_parse(job: ParseJob, limits: ParseLimits, agent: str) -> ParsedPage:
    """Parses under the CPU timer: SIGPROF's default action ends the process."""
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_PROF, limits.cpu_s)
    try:
        return _parse(job, limits, agent)
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def _parse(job: ParseJob, limits: ParseLimits, agent: str) -> ParsedPage:
    try:
        return parse_page(
            job.body,
            document_url=job.document_url,
            content_type=job.content_type,
            x_robots_tag=job.x_robots_tag,
            link_header=job.link_header,
            refresh_header=job.refresh_header,
            limits=limits,
            agent=agent,
            body_truncated=job.body_truncated,
            at=job.fetched_at,
        )
    except Exception:
        return failed_page(job.document_url, len(job.body), Reason.PARSE_FAILED)


def _tables(jobs: list[ParseJob], pages: list[ParsedPage]) -> tuple[pa.Table, pa.Table]:
    return manifest_tables(
        pages, [job.key for job in jobs], [job.manifest_id for job in jobs], [job.content_hash for job in jobs]
    )
