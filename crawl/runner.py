"""The two ways in. Here: `crawl_batch` for code on trio, `run_batch` for everybody else, with signals. Not here: the
crawl."""

from __future__ import annotations

import signal
import threading
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from typing import TypeVar

import trio

from crawl.config import CrawlSettings
from crawl.engine import Crawl
from crawl.memory import MemoryOrigins, MemorySink, MemorySnapshots
from crawl.ports import FetchSink, FetchTask, OriginBook, SnapshotIndex
from crawl.robots import RobotsState
from crawl.stop import Stop
from crawl.summary import CrawlSummary
from transforms.clock import Clock

T = TypeVar("T")


async def crawl_batch(
    tasks: Iterable[FetchTask],
    *,
    settings: CrawlSettings,
    sink: FetchSink,
    snapshots: SnapshotIndex,
    origins: OriginBook,
    clock: Clock,
    stop: Stop | None = None,
    owns: Callable[[str], bool] | None = None,
) -> CrawlSummary:
    """Fetch every task politely and commit one result for each.

    Tasks are read as they are needed (`settings.read_ahead`): hand in an iterable that makes them when asked, hosts
    well mixed, and memory does not grow with their number. Priorities and tenants' shares count among what is read.

    `owns(origin)` says whether an origin that a redirect leads to belongs to this shard (its clock is then kept in
    memory); without it, those of the tasks' registrable domains do. When `stop` is requested the open sockets are
    closed, what is complete is committed, `summary.stopped` says why and the other tasks have no result. Whatever a
    port raises ends the crawl and is raised (a stale fence, a store that is away): nothing is committed after it, and
    what was under way has no result. Where a stop was asked for, it is `summary.error` instead.
    """
    return await Crawl(
        tasks, settings=settings, sink=sink, snapshots=snapshots, origins=origins, clock=clock, stop=stop, owns=owns
    ).run()


def run_batch(
    tasks: Iterable[FetchTask],
    *,
    settings: CrawlSettings,
    sink: FetchSink,
    snapshots: SnapshotIndex,
    origins: OriginBook,
    clock: Clock,
    stop: Stop | None = None,
    owns: Callable[[str], bool] | None = None,
    deadline_s: float | None = None,
) -> CrawlSummary:
    """`crawl_batch` from ordinary code. In the main thread SIGINT and SIGTERM stop the crawl cleanly and the handlers
    that were there are put back: look at `summary.stopped` (`SIGTERM`) and raise what the caller's framework expects.
    In another thread, call `stop.request()`. `deadline_s` stops it after so many seconds.
    """
    stop = stop or Stop()

    async def main() -> CrawlSummary:
        async with trio.open_nursery() as nursery:
            if threading.current_thread() is threading.main_thread():
                await nursery.start(_listen, stop)
            if deadline_s is not None:
                nursery.start_soon(_stop_at, trio.current_time() + deadline_s, stop)
            try:
                return await crawl_batch(
                    tasks,
                    settings=settings,
                    sink=sink,
                    snapshots=snapshots,
                    origins=origins,
                    clock=clock,
                    stop=stop,
                    owns=owns,
                )
            finally:
                nursery.cancel_scope.cancel()

    return trio.run(partial(_unwrapped, main))


def fetch_robots(url: str, *, settings: CrawlSettings, clock: Clock) -> RobotsState:
    """The robots.txt that governs `url`, fetched now through every gate. Raises `crawl.egress.Refused`."""

    async def main() -> RobotsState:
        sink, snapshots, origins = MemorySink(), MemorySnapshots(), MemoryOrigins()
        crawl = Crawl([], settings=settings, sink=sink, snapshots=snapshots, origins=origins, clock=clock)
        return await crawl.robots_of(url)

    return trio.run(partial(_unwrapped, main))


async def _unwrapped(main: Callable[[], Awaitable[T]]) -> T:
    """One error is raised as itself, not as a group of one."""
    try:
        return await main()
    except* Exception as group:
        error: BaseException = group
        while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
            error = error.exceptions[0]
        raise error from None


async def _listen(stop: Stop, task_status: trio.TaskStatus[None]) -> None:
    with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        task_status.started()
        async for number in signals:
            stop.request(signal.Signals(number).name)


async def _stop_at(deadline: float, stop: Stop) -> None:
    await trio.sleep_until(deadline)
    stop.request("deadline")
