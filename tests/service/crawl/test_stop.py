"""Stopping: signals, deadlines, other threads. Sockets are closed, what is complete is committed, the rest is left."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from itertools import pairwise
from pathlib import Path

import pytest

from crawl import Stop, run_batch
from crawl.config import CrawlSettings
from crawl.memory import MemoryOrigins, MemorySink, MemorySnapshots
from crawl.ports import FetchResult, FetchTask
from tests.fixtures.hostile import HostileServer
from transforms.clock import WallClock
from transforms.errors import TransientError

pytestmark = pytest.mark.service


def settings_of(server: HostileServer) -> CrawlSettings:
    return CrawlSettings(
        test_hosts=server.test_hosts, test_ca_file=server.ca_file, origin_gap_s=0.01, commit_interval_s=0.05
    )


def tasks_of(prefix: str) -> list[FetchTask]:
    """One page that comes at once, then pages that never do."""
    hosts = [f"{prefix}{n}.example.test" for n in range(10)]
    return [
        FetchTask(0, f"http://{hosts[0]}/plain"),
        *(FetchTask(n, f"http://{hosts[n]}/silent") for n in range(1, 10)),
    ]


class Telling(MemorySink):
    """Says when the first result is in."""

    def __init__(self, tell) -> None:  # type: ignore[no-untyped-def]
        super().__init__()
        self._tell = tell

    def commit(self, results: list[FetchResult]) -> None:  # type: ignore[override]
        super().commit(results)
        self._tell()


def wait_until_closed(server: HostileServer) -> None:
    for _ in range(200):
        if server.open_now == 0:
            return
        threading.Event().wait(0.02)
    raise AssertionError(f"{server.open_now} connections are still open")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_in_the_main_thread(hostile: HostileServer, number: signal.Signals) -> None:
    before = signal.getsignal(number)
    sink = Telling(lambda: os.kill(os.getpid(), number))
    summary = run_batch(
        tasks_of(f"sig{number.value}x"),
        settings=settings_of(hostile),
        sink=sink,
        snapshots=MemorySnapshots(),
        origins=MemoryOrigins(),
        clock=WallClock(),
    )
    assert summary.stopped == number.name
    assert sorted(sink.by_key) == [0]
    assert summary.unfinished == 9
    assert signal.getsignal(number) is before
    wait_until_closed(hostile)


def test_a_stop_from_another_thread_while_the_crawl_is_not_in_the_main_one(hostile: HostileServer) -> None:
    stop = Stop()
    sink = Telling(lambda: stop.request("the UI"))
    found: list[object] = []

    def crawl() -> None:
        found.append(
            run_batch(
                tasks_of("thread"),
                settings=settings_of(hostile),
                sink=sink,
                snapshots=MemorySnapshots(),
                origins=MemoryOrigins(),
                clock=WallClock(),
                stop=stop,
            )
        )

    thread = threading.Thread(target=crawl)
    thread.start()
    thread.join(30)
    assert found
    assert found[0].stopped == "the UI"  # type: ignore[attr-defined]
    assert sorted(sink.by_key) == [0]
    wait_until_closed(hostile)


def test_a_deadline(hostile: HostileServer) -> None:
    sink = MemorySink()
    summary = run_batch(
        tasks_of("deadline"),
        settings=settings_of(hostile),
        sink=sink,
        snapshots=MemorySnapshots(),
        origins=MemoryOrigins(),
        clock=WallClock(),
        deadline_s=0.5,
    )
    assert summary.stopped == "deadline"
    assert sorted(sink.by_key) == [0]


def test_a_stop_that_came_before_the_start() -> None:
    stop = Stop()
    stop.request("early")
    sink = MemorySink()
    summary = run_batch(
        tasks_of("early"),
        settings=CrawlSettings(test_hosts={"*.example.test": "127.0.0.1:1"}),
        sink=sink,
        snapshots=MemorySnapshots(),
        origins=MemoryOrigins(),
        clock=WallClock(),
        stop=stop,
    )
    assert (summary.stopped, summary.unfinished, sink.results) == ("early", 10, [])


def test_the_command_answers_in_order_and_stops_with_one_sentence(hostile: HostileServer, tmp_path: Path) -> None:
    env = os.environ | {
        "BACKLINKS_CRAWL__TEST_HOSTS": f'{{"*.example.test": "127.0.0.1:{hostile.port}"}}',
        "BACKLINKS_CRAWL__TEST_CA_FILE": hostile.ca_file,
        "BACKLINKS_CRAWL__ORIGIN_GAP_S": "0.01",
        "BACKLINKS_CRAWL__COMMIT_INTERVAL_S": "0.05",
    }
    lines = tmp_path / "urls.jsonl"
    lines.write_text(
        '{"url": "http://cli.example.test/redirect?to=/gzip"}\nnot json\n{"url": 7}\n{"url": "http://10.0.0.1/"}\n'
        '{"url": "http://hang.example.test/silent"}\n'
    )
    command = [sys.executable, "-c", "from orchestration.cli.main import main; main()", "fetch", "--jsonl", str(lines)]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env)
    assert child.stdout is not None
    answers = [json.loads(child.stdout.readline()) for _ in range(4)]
    child.send_signal(signal.SIGTERM)
    rest, err = child.communicate(timeout=20)
    assert rest == ""
    assert child.returncode != 0
    assert "Stopped by SIGTERM: 1 of 3 URLs have no answer" in err
    assert "Traceback" not in err
    page, bad, number, private = answers
    assert set(page) == {"url", "outcome", "reason", "http_status", "final_url", "hops", "bytes", "body_sha256"}
    assert (page["outcome"], page["final_url"], len(page["hops"])) == ("fetched", "http://cli.example.test/gzip", 2)
    assert page["hops"][0] == {
        "url": "http://cli.example.test/redirect?to=/gzip",
        "gate": "response",
        "reason": "ok",
        "address": "127.0.0.1",
        "status": 302,
    }
    assert "line 2 is not JSON" in bad["error"]
    assert number == {"url": 7, "error": "url must be a non-empty string"}
    assert (private["reason"], private["http_status"], private["body_sha256"]) == ("blocked_network", None, None)


def test_lines_that_come_one_by_one_are_answered_one_by_one_and_as_politely(hostile: HostileServer) -> None:
    """What is known of an origin outlives the round in which it was learned."""
    env = os.environ | {
        "BACKLINKS_CRAWL__TEST_HOSTS": f'{{"*.example.test": "127.0.0.1:{hostile.port}"}}',
        "BACKLINKS_CRAWL__ORIGIN_GAP_S": "0.7",
    }
    command = [sys.executable, "-c", "from orchestration.cli.main import main; main()", "fetch", "--jsonl", "-"]
    child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env)
    assert child.stdin is not None
    assert child.stdout is not None
    for path in ("/plain", "/gzip", "/plain"):
        child.stdin.write(f'{{"url": "http://onebyone.example.test{path}"}}\n')
        child.stdin.flush()
        assert json.loads(child.stdout.readline())["outcome"] == "fetched"
    child.stdin.close()
    assert child.wait(20) == 0
    child.stdout.close()
    seen = hostile.requests("onebyone.example.test")
    assert [one.path for one in seen] == ["/robots.txt", "/plain", "/gzip", "/plain"]
    assert min(later.at - earlier.at for earlier, later in pairwise(seen)) >= 0.6


def test_a_ledger_that_is_down_is_raised_as_itself() -> None:
    class Down(MemoryOrigins):
        def load(self, origins):  # type: ignore[no-untyped-def]
            raise TransientError("The ledger does not answer: start it and run again.")

    with pytest.raises(TransientError, match="start it and run again"):
        run_batch(
            tasks_of("down"),
            settings=CrawlSettings(test_hosts={"*.example.test": "127.0.0.1:1"}),
            sink=MemorySink(),
            snapshots=MemorySnapshots(),
            origins=Down(),
            clock=WallClock(),
        )
