"""A soak: many hosts that fail at random, a crawler that is killed at random, and the promises checked at the end.

    python -m tests.bench.crawl_soak [--seconds 1800] [--hosts 60] [--seed 1]

Faults: resets, stalls, slow drips, half bodies, garbage, bombs, 500, 429 and 503 with Retry-After, redirects within
and between hosts, lost DNS, a sink whose store is down, SIGTERM, and kill -9 of the crawling process, which is then
started again with what has no result yet. Checked: nothing lost, nothing committed twice, nothing asked again after its
commit, no gap violated as the server saw it, no file handles or memory growing. MySQL itself is the ledger's soak.
"""

from __future__ import annotations

import argparse
import json
import os
import pickle
import random
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import trio

from tests.fixtures.hostile import HANDLERS, PAGE, HostileServer, Talk

GAP_S = 0.25
KEEP_APART = 0.6
"""Share of the gap that must be left between two arrivals at a host: both processes share two busy cores."""


class SoakServer(HostileServer):
    """Answers `/page/N` well or badly, by chance."""

    def __init__(self, rng: random.Random) -> None:
        super().__init__()
        self.rng = rng
        self.arrivals: dict[tuple[str, bool], list[float]] = defaultdict(list)
        self.by_page: dict[str, list[float]] = defaultdict(list)
        self.faults: Counter[str] = Counter()

    async def _answer(self, talk: Talk) -> None:
        now = time.monotonic()
        self.arrivals[(talk.seen.host, talk.seen.tls)].append(now)
        self.by_page[talk.seen.host + talk.seen.path].append(now)
        self.log.clear()
        if talk.seen.path == "/robots.txt":
            if self.rng.random() < 0.1:
                self.faults["robots 503"] += 1
                await talk.respond(b"", "503 Busy", b"")
            else:
                await talk.respond(b"User-agent: *\nDisallow: /private\n", headers=b"Content-Type: text/plain\r\n")
            return
        roll = self.rng.random()
        for share, name in FAULTS:
            if roll < share:
                self.faults[name] += 1
                await _misbehave(name, talk, self.rng)
                return
            roll -= share
        await talk.respond(PAGE)


FAULTS = (
    (0.03, "/reset"),
    (0.02, "/silent"),
    (0.02, "/drip"),
    (0.02, "/half-body"),
    (0.02, "/not-http"),
    (0.01, "/bomb-gzip"),
    (0.02, "/close"),
    (0.03, "500"),
    (0.01, "503"),
    (0.01, "429"),
    (0.04, "redirect"),
    (0.02, "hop"),
)


async def _misbehave(name: str, talk: Talk, rng: random.Random) -> None:
    if name in HANDLERS:
        await HANDLERS[name](talk)
    elif name == "redirect":
        await talk.respond(b"", "302 Found", b"Location: %s?again\r\n" % talk.seen.path.split("?")[0].encode())
    elif name == "hop":
        await talk.respond(b"", "301 Moved", b"Location: http://s%d.example.test/hop\r\n" % rng.randrange(20))
    else:
        await talk.respond(b"", f"{name} Oops", b"Retry-After: 1\r\n")


# -- the crawling process ----------------------------------------------------------------------------------------------


def crawl(folder: Path, seed: int) -> None:
    from crawl.config import CrawlSettings
    from crawl.egress.gate import Admission, EgressGate, Refused
    from crawl.egress.urls import Target
    from crawl.engine import Crawl
    from crawl.memory import MemoryOrigins, MemorySnapshots
    from crawl.ports import FetchResult, FetchTask, OriginState, RobotsRecord
    from crawl.runner import _listen
    from crawl.stop import Stop
    from transforms.clock import WallClock
    from transforms.reasons import Reason

    rng = random.Random(seed)
    plan = json.loads((folder / "plan.json").read_text())
    done = {
        json.loads(line)["key"] for line in (folder / "results.jsonl").read_text().splitlines() if line.endswith("}")
    }

    class Sink:
        def commit(self, results: Sequence[FetchResult]) -> None:
            if rng.random() < 0.02:
                raise OSError("the store is down")
            with (folder / "results.jsonl").open("a") as file:
                for result in results:
                    line = {"key": result.task.key, "at": time.monotonic(), "reason": result.reason.value}
                    file.write(json.dumps(line | {"outcome": result.outcome.value}) + "\n")
                file.flush()
                os.fsync(file.fileno())

    class Book(MemoryOrigins):
        def __init__(self) -> None:
            super().__init__()
            if (folder / "book.pickle").exists():
                self.states, self.robots = pickle.loads((folder / "book.pickle").read_bytes())

        def save(self, states: Sequence[OriginState]) -> None:
            super().save(states)
            self._keep()

        def save_robots(self, records: Sequence[RobotsRecord]) -> None:
            super().save_robots(records)
            self._keep()

        def _keep(self) -> None:
            (folder / "book.new").write_bytes(pickle.dumps((self.states, self.robots)))
            (folder / "book.new").replace(folder / "book.pickle")

    class LossyDns(EgressGate):
        async def admit_target(self, target: Target) -> Admission:
            if rng.random() < 0.01:
                raise Refused("address", Reason.DNS_FAILED, "DNS did not answer.")
            return await super().admit_target(target)

    hosts = {"*.example.test": f"127.0.0.1:{plan['port']}"}
    settings = CrawlSettings(
        test_hosts=hosts,
        test_ca_file=plan["ca_file"],
        origin_gap_s=GAP_S,
        connect_timeout_s=2.0,
        first_byte_timeout_s=1.0,
        total_timeout_s=2.0,
        retry_base_s=0.5,
        origin_backoff_base_s=1.0,
        robots_error_ttl_s=5,
        commit_interval_s=0.5,
    )
    stop = Stop()
    engine = Crawl(
        [FetchTask(key, url, "example.test") for key, url in enumerate(plan["urls"]) if key not in done],
        settings=settings,
        sink=Sink(),
        snapshots=MemorySnapshots(),
        origins=Book(),
        clock=WallClock(),
        stop=stop,
        gate=LossyDns(settings.allowed_ports, test_hosts=hosts, test_ca_file=plan["ca_file"]),
    )

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            await nursery.start(_listen, stop)
            try:
                summary = await engine.run()
            finally:
                nursery.cancel_scope.cancel()
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        handles = len(os.listdir("/proc/self/fd"))
        print(
            json.dumps(
                {"stopped": summary.stopped, "peak_mb": peak, "handles": handles, "bugs": summary.internal_errors}
            ),
            flush=True,
        )

    try:
        trio.run(main)
    except* OSError:
        sys.exit(9)


# -- the judge ---------------------------------------------------------------------------------------------------------


def soak(seconds: float, hosts: int, seed: int) -> int:
    rng = random.Random(seed)
    server = SoakServer(random.Random(seed + 1))
    ends: Counter[str] = Counter()
    peaks: list[float] = []
    handles: list[int] = []
    bugs = 0
    with tempfile.TemporaryDirectory(prefix="crawl-soak-") as name:
        folder = Path(name)
        server.start(folder)
        urls = [
            f"{rng.choice(['http', 'http', 'https'])}://s{rng.randrange(hosts)}.example.test/page/{n}"
            for n in range(int(seconds * hosts * 2.2))
        ]
        (folder / "plan.json").write_text(json.dumps({"port": server.port, "ca_file": server.ca_file, "urls": urls}))
        (folder / "results.jsonl").touch()
        began = time.monotonic()
        round_number = 0
        while True:
            round_number += 1
            command = [
                sys.executable,
                "-m",
                "tests.bench.crawl_soak",
                "--child",
                name,
                "--seed",
                str(seed + round_number),
            ]
            child = subprocess.Popen(
                command, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).resolve().parents[2]
            )
            is_late = time.monotonic() - began > seconds
            try:
                out, _ = child.communicate(timeout=None if is_late else rng.uniform(8, 40))
            except subprocess.TimeoutExpired:
                number = rng.choice([signal.SIGKILL, signal.SIGKILL, signal.SIGTERM])
                child.send_signal(number)
                out, _ = child.communicate()
                ends[number.name] += 1
            if out.strip():
                row: dict[str, Any] = json.loads(out.strip().splitlines()[-1])
                peaks.append(row["peak_mb"])
                handles.append(row["handles"])
                bugs += row["bugs"]
                if row["stopped"] is None:
                    break
            elif child.returncode == 9:
                ends["store down"] += 1
            elif child.returncode not in (-signal.SIGKILL, -signal.SIGTERM, 0):
                print(f"the crawler ended with {child.returncode}")
                return 1
            _drop_half_line(folder / "results.jsonl")
        took = time.monotonic() - began
        lines = [json.loads(line) for line in (folder / "results.jsonl").read_text().splitlines()]
        server.stop()
    committed = Counter(line["key"] for line in lines)
    at = {line["key"]: line["at"] for line in lines}
    lost = len(urls) - len(committed)
    twice = sum(1 for count in committed.values() if count > 1)
    after = 0
    for key, url in enumerate(urls):
        page = url.split("://", 1)[1]
        after += sum(1 for seen in server.by_page[page] if seen > at.get(key, float("inf")) + 0.05)
    gaps = [
        later - earlier
        for seen in server.arrivals.values()
        for earlier, later in zip(sorted(seen), sorted(seen)[1:], strict=False)
    ]
    close = sum(1 for gap in gaps if gap < GAP_S * KEEP_APART)
    outcomes = Counter(line["outcome"] for line in lines)
    print(
        f"{took:.0f} s, {len(urls)} pages of {hosts} hosts, {sum(len(s) for s in server.arrivals.values())} requests,"
    )
    print(f"{round_number} starts of the crawler; ended by: {dict(ends)}; faults served: {dict(server.faults)}")
    print(f"outcomes: {dict(outcomes)}; reasons: {dict(Counter(line['reason'] for line in lines))}")
    print(f"lost {lost}, committed twice {twice}, asked again after the commit {after}, internal errors {bugs}")
    print(f"gaps: least {min(gaps):.3f} s of {GAP_S} s, below {KEEP_APART:.0%} of it: {close} of {len(gaps)}")
    print(f"peak memory {max(peaks):.0f} MB, handles open at the end {max(handles)}")
    return 1 if lost or twice or after or close or bugs else 0


def _drop_half_line(path: Path) -> None:
    """A kill may have cut the last line: it was never acknowledged."""
    data = path.read_bytes()
    if data and not data.endswith(b"\n"):
        path.write_bytes(data[: data.rfind(b"\n") + 1])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=1800)
    parser.add_argument("--hosts", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--child")
    arguments = parser.parse_args()
    if arguments.child:
        crawl(Path(arguments.child), arguments.seed)
        return 0
    return soak(arguments.seconds, arguments.hosts, arguments.seed)


if __name__ == "__main__":
    sys.exit(main())
