"""304s of the same moment ask the snapshot index once; each gets its own answer."""

from __future__ import annotations

import random
from collections.abc import Sequence
from datetime import UTC, datetime

import pytest
import trio
import trio.testing

from crawl.config import CrawlSettings
from crawl.engine.context import Context, PortFailed
from crawl.engine.crawl import default_gate
from crawl.engine.snapshot_checks import SnapshotChecks
from crawl.politeness import Frontier
from crawl.summary import CrawlSummary
from tests.unit.crawl.test_polite_engine import inline
from tests.unit.crawl.web import MemoryWeb
from transforms.clock import FixedClock


class Index:
    def __init__(self, there: set[str], error: Exception | None = None) -> None:
        self.there, self.error, self.asked = there, error, list[list[str]]()

    def is_available(self, object_keys: Sequence[str]) -> set[str]:
        self.asked.append(list(object_keys))
        if self.error is not None:
            raise self.error
        return self.there.intersection(object_keys)


def checks(index: Index) -> SnapshotChecks:
    settings = CrawlSettings()
    frontier: Frontier[object] = Frontier(gap_s=1.0, max_in_flight=1, starvation_s=60.0)
    context = Context(
        settings, FixedClock(datetime(2026, 12, 1, tzinfo=UTC)), random.Random(1), inline, default_gate(settings),
        MemoryWeb(), frontier, CrawlSummary(),  # type: ignore[arg-type]
    )  # fmt: skip
    return SnapshotChecks(context, index)


def test_questions_of_one_moment_are_one_call_and_later_ones_another() -> None:
    index, answers = Index({"a", "c"}), dict[str, bool]()
    asked = checks(index)

    async def ask(name: str, key: str, after_s: float) -> None:
        await trio.sleep(after_s)
        answers[name] = await asked.is_there(key)

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            for name, key, after_s in (("1", "a", 0.0), ("2", "b", 0.01), ("3", "a", 0.015), ("4", "c", 5.0)):
                nursery.start_soon(ask, name, key, after_s)

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))
    assert answers == {"1": True, "2": False, "3": True, "4": True}
    assert index.asked == [["a", "b"], ["c"]]


def test_all_who_asked_hear_that_the_index_is_away_and_the_next_asks_again() -> None:
    index = Index({"a"}, ConnectionError("the store does not answer"))
    asked = checks(index)

    async def refused(key: str) -> None:
        with pytest.raises(PortFailed, match="the store does not answer"):
            await asked.is_there(key)

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(refused, "a")
            nursery.start_soon(refused, "b")
        index.error = None
        assert await asked.is_there("a")

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))
    assert index.asked == [["a", "b"], ["a"]]
