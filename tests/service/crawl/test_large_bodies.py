"""Memory under hostile hosts: of large bodies only so many are read at once."""

from __future__ import annotations

import pytest

from crawl import run_batch
from crawl.config import CrawlSettings
from crawl.memory import MemoryOrigins, MemorySink, MemorySnapshots
from crawl.ports import FetchTask
from tests.fixtures.hostile import HostileServer
from transforms.clock import WallClock

pytestmark = pytest.mark.service


@pytest.mark.parametrize(("slots", "of_the_large_one"), [(1, "total_timeout"), (2, "ok")])
def test_a_large_body_waits_for_a_slot_and_a_small_one_does_not(
    hostile: HostileServer, slots: int, of_the_large_one: str
) -> None:
    hostile.stalled.clear()
    sink = MemorySink()
    # The one that stalls begins two seconds after the others, so that its time is over two seconds after theirs.
    paths = ["/large-stall?after=2", "/size?bytes=3000000", "/size?bytes=900000"]
    run_batch(
        [FetchTask(n, f"http://slots{slots}-{n}.example.test{path}") for n, path in enumerate(paths)],
        settings=CrawlSettings(
            test_hosts=hostile.test_hosts, large_bodies=slots, total_timeout_s=6.0, max_attempts=1, origin_gap_s=0.01
        ),
        sink=sink,
        snapshots=MemorySnapshots(),
        origins=MemoryOrigins(),
        clock=WallClock(),
    )
    reasons = {result.task.key: result.reason.value for result in sink.results}
    assert reasons == {0: "total_timeout", 1: of_the_large_one, 2: "ok"}
