"""The crawling process of a soak: the flow's own claim and fetch of one shard, window after window, until it is stopped
or killed. Here: the loop, and the faults that only this side can have (DNS, the object store). Not here: a mock of
anything; ledger, leases, fences, sink, snapshots and datasets are what `assets` uses.

It writes one JSON object a line, `worker-<shard>-<slot>.jsonl`: what failed and why; logs and tracebacks go beside it.
"""

from __future__ import annotations

import json
import os
import random
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow.compute as pc

from assets import due_sources, page_fetches
from assets.partition import WindowShard
from assets.platform import Platform
from crawl import Stop
from crawl.egress.gate import Admission, EgressGate, Refused
from crawl.egress.urls import Target
from crawl.politeness import Frontier, Grant
from orchestration.settings import Settings
from tests.bench.soak.scene import Scene
from transforms.errors import TransientError
from transforms.reasons import Outcome, Reason
from transforms.windows import Window
from warehouse.ledger import StaleFence
from warehouse.objects import StoreUnavailable

DNS_LOSS = 0.01
_CALLS = frozenset({"put", "put_if_absent", "get", "open", "exists", "size", "list", "delete"})


class FailingStore:
    """The object store, which does not answer while a file is there: what S3 says when it is down."""

    def __init__(self, store: Any, flag: Path) -> None:
        self._store, self._flag = store, flag

    def __getattr__(self, name: str) -> Any:
        call: Callable[..., Any] = getattr(self._store, name)
        if name not in _CALLS:
            return call

        def guarded(*args: Any, **more: Any) -> Any:
            if self._flag.exists():
                raise StoreUnavailable("the object store does not answer (the soak switched it off)")
            return call(*args, **more)

        return guarded


def lose_dns(rng: random.Random) -> None:
    """A hundredth of all lookups fails."""
    admit = EgressGate.admit_target

    async def admit_target(self: EgressGate, target: Target) -> Admission:
        if rng.random() < DNS_LOSS:
            raise Refused("address", Reason.DNS_FAILED, "DNS did not answer (the soak's doing).")
        return await admit(self, target)

    EgressGate.admit_target = admit_target  # type: ignore[method-assign]


def record_sends(path: Path) -> None:
    """Note when the bytes of each request went out, `time origin` a line: between that and its arrival lies jitter."""
    file, sent = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT), Frontier.sent

    def noted(self: Frontier[Any], grant: Grant[Any], now: float) -> None:
        os.write(file, f"{time.time():.6f} {grant.entry.origin}\n".encode())
        sent(self, grant, now)

    Frontier.sent = noted  # type: ignore[method-assign]


EVENTS: list[Path] = []
"""Where this process says what happens to it."""


def say(event: str, **more: object) -> None:
    with EVENTS[0].open("a") as file:
        file.write(json.dumps({"at": time.time(), "pid": os.getpid(), "event": event, **more}) + "\n")


def one_pass(platform: Platform, at: WindowShard, stop: Stop) -> int:
    """Claim and fetch. Returns how many sources of the partition are not settled."""
    due_sources.claim(platform, at)
    outcomes = page_fetches.fetch(platform, at, refetch=False, stop=stop)
    return int(pc.sum(pc.equal(outcomes["outcome"], Outcome.DEFERRED.value)).as_py() or 0)


def work(platform: Platform, shard: int, windows: Sequence[Window] | None) -> None:
    """For ever on the current window; or, with `windows`, on each of these until it is settled or (the last) over."""
    left, before, stop = list(windows or ()), -1, Stop()
    while windows is None or left:
        if stop.why is not None:  # asked to stop while a store was away: its error came instead of `Stopped`
            say("stopped", detail=stop.why)
            return
        at = WindowShard(left[0] if left else Window.containing(platform.clock.now(), platform.window_length), shard)
        try:
            open_ = one_pass(platform, at, stop)
        except StaleFence as error:
            say("stale fence", window=at.window.key, detail=str(error))
        except page_fetches.Stopped as error:
            say("stopped", window=at.window.key, detail=str(error))
            return
        except TransientError as error:
            # What the flow does with it: the run fails, and is run again.
            say("failed", window=at.window.key, error=type(error).__name__, detail=str(error))
            time.sleep(1.0)
        else:
            if open_ != before:
                say("pass", window=at.window.key, unsettled=open_)
            before = open_
            if left and (open_ == 0 or platform.clock.now() >= left[0].end):
                del left[0]
            else:
                time.sleep(3.0)


def run(folder: str, shard: int, slot: int, seed: int, drain: Sequence[str] | None = None) -> None:
    """A crawler's life, as the target of a process. `drain`: finish these windows without any fault, and end."""
    scene = Scene.read(Path(folder))
    with open(scene.path / f"worker-{shard}-{slot}.log", "ab") as log:
        os.dup2(log.fileno(), 1)
        os.dup2(log.fileno(), 2)
    EVENTS.append(scene.path / f"worker-{shard}-{slot}.jsonl")
    platform = scene.platform(Settings(_env_file=scene.env_file))
    windows = None
    if drain is None:
        platform.__dict__["objects"] = FailingStore(platform.objects, scene.store_down)
        lose_dns(random.Random(seed))
    else:
        windows = [platform.window(key) for key in drain]
    record_sends(scene.path / f"sends-{shard}-{slot}.log")
    say("started", shard=shard)
    work(platform, shard, windows)
    platform.close()
    say("ended")
