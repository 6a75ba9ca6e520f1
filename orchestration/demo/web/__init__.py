"""The scripted web as its users see it: start it, set its window, read its log, crawl it politely but soon.

Here: the handle of the server process and the crawl settings for it. Not here: the server (`server`, a process of its
own, `python -m orchestration.demo.web`) and the script (`orchestration.demo.scenario`).
"""

from __future__ import annotations

import http.client
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from crawl.config import CrawlSettings
from orchestration.demo.scenario.model import Scenario, load_scenario
from transforms.errors import TransientError

START_TIMEOUT_S = 30.0


class WebUnavailable(TransientError):
    """The scripted web does not answer."""


def addresses_of(hosts: Iterable[str]) -> dict[str, str]:
    """A loopback address of its own for each name, in order: 127.10.0.1, 127.10.0.2, …"""
    return {name: f"127.10.{index // 250}.{index % 250 + 1}" for index, name in enumerate(hosts)}


def loopback_hosts(port: int, window: int | None = None, scenario: Scenario | None = None) -> dict[str, str]:
    """`CrawlSettings.test_hosts` for a scripted web on `port`: name -> '127.x.y.z:port'. With a window, only the names
    that resolve in it."""
    hosts = (scenario or load_scenario()).hosts
    addresses = addresses_of(hosts)
    return {name: f"{addresses[name]}:{port}" for name, host in hosts.items() if window is None or window in host.dns}


def demo_crawl_settings(port: int, window: int | None = None) -> CrawlSettings:
    """The crawler's settings for the demo: all gates and limits on, manners kept, waits shortened to loopback's scale.

    robots.txt and redirectors are asked again in every window (they are 2 logical hours apart), so that a change is seen soon.
    """
    return CrawlSettings.model_validate(
        {
            "origin_gap_s": 0.1,
            "connect_timeout_s": 2.0,
            "first_byte_timeout_s": 1.5,
            "total_timeout_s": 3.0,
            "dns_timeout_s": 2.0,
            "max_attempts": 2,
            "retry_base_s": 0.2,
            "max_backoff_wait_s": 1.0,
            "robots_ttl_s": 3600,
            "robots_error_ttl_s": 600,
            "redirect_ttl_s": 3600,
            "test_hosts": loopback_hosts(port, window),
        }
    )


@dataclass
class ScriptedWeb:
    """A running scripted web. `start` it or `attach` to one by its state file."""

    pid: int
    port: int
    addresses: dict[str, str]
    state: Path
    process: subprocess.Popen[bytes] | None = None

    @classmethod
    def start(
        cls,
        folder: Path,
        *,
        port: int = 0,
        window: int = 0,
        detach: bool = False,
        module: str = "orchestration.demo.web",
        arguments: tuple[str, ...] = (),
    ) -> ScriptedWeb:
        """Start the server as a process and wait until it answers. It ends with this process unless `detach` is set.

        Raises `WebUnavailable` with the server's own words when it does not come up.
        """
        folder.mkdir(parents=True, exist_ok=True)
        state, log = folder / "web.json", folder / "web.log"
        state.unlink(missing_ok=True)
        command = [sys.executable, "-m", module, "--port", str(port), "--state", str(state), *arguments]
        command += ["--window", str(window)] if module == "orchestration.demo.web" else []
        command += [] if detach else ["--until-stdin-closes"]
        with log.open("wb") as output:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL if detach else subprocess.PIPE,
                stdout=output,
                stderr=output,
                start_new_session=detach,
                cwd=Path(__file__).resolve().parents[3],
            )
        deadline = time.monotonic() + START_TIMEOUT_S
        while not state.exists():
            if process.poll() is not None or time.monotonic() > deadline:
                process.kill()
                process.wait()
                raise WebUnavailable(
                    f"the demo's web server did not start: {log.read_text().strip()[-500:]} (log: {log})."
                )
            time.sleep(0.02)
        return cls._of(state, process)

    @classmethod
    def attach(cls, state: Path) -> ScriptedWeb:
        """A handle for a server that runs already. Raises `WebUnavailable` when it does not."""
        if not state.exists():
            raise WebUnavailable(f"no scripted web runs here: {state} is absent; start one with `backlinks demo`.")
        web = cls._of(state, None)
        if json.loads(web._call("GET", "/state"))["pid"] != web.pid:
            raise WebUnavailable(f"port {web.port} belongs to another server than {state} tells of; delete that file.")
        return web

    @classmethod
    def end_earlier(cls, state: Path) -> bool:
        """Stop the server that a state file tells of, if it still runs (then True); the file of a dead one is removed."""
        try:
            cls.attach(state).stop()
        except WebUnavailable:
            state.unlink(missing_ok=True)
            return False
        return True

    @classmethod
    def _of(cls, state: Path, process: subprocess.Popen[bytes] | None) -> ScriptedWeb:
        told = json.loads(state.read_text())
        return cls(told["pid"], told["port"], told["addresses"], state, process)

    def stop(self) -> None:
        """End the server (SIGTERM by pid) and wait for it. Doing it twice is harmless."""
        if self.process is not None:
            if self.process.poll() is None:
                self.process.terminate()
            if self.process.stdin:
                self.process.stdin.close()
            self.process.wait(10)
        elif self.state.exists():
            os.kill(self.pid, signal.SIGTERM)
            deadline = time.monotonic() + 10
            while self.state.exists() and time.monotonic() < deadline:
                time.sleep(0.02)

    def set_window(self, window: int) -> None:
        """From now on every page says what the script says for this window."""
        self._call("PUT", f"/window/{window}")

    @property
    def window(self) -> int:
        return int(json.loads(self._call("GET", "/state"))["window"])

    def requests(self, after: int = 0) -> list[dict[str, Any]]:
        """The request log from number `after` on: number, at (monotonic seconds), window, host, path, status,
        conditional, user_agent, accept_encoding."""
        return [json.loads(line) for line in self._call("GET", f"/log?after={after}").splitlines()]

    def clear_requests(self) -> None:
        self._call("DELETE", "/log")

    def test_hosts(self, window: int | None = None) -> dict[str, str]:
        """`CrawlSettings.test_hosts` of this server."""
        dns = load_scenario().hosts
        return {
            name: f"{address}:{self.port}"
            for name, address in self.addresses.items()
            if window is None or name not in dns or window in dns[name].dns
        }

    def crawl_settings(self, window: int | None = None) -> CrawlSettings:
        return demo_crawl_settings(self.port, window).model_copy(update={"test_hosts": self.test_hosts(window)})

    def _call(self, method: str, path: str) -> bytes:
        connection = http.client.HTTPConnection(next(iter(self.addresses.values())), self.port, timeout=10)
        try:
            connection.request(method, path, headers={"Host": "scripted-web.invalid"})
            response = connection.getresponse()
            body = response.read()
        except OSError as error:
            raise WebUnavailable(
                f"the demo's web server on port {self.port} does not answer: {error}; start the demo again."
            ) from error
        finally:
            connection.close()
        if response.status != 200:
            raise ValueError(f"the scripted web refused {method} {path}: {body.decode()}")
        return body


def least_gaps(requests: Iterable[dict[str, Any]]) -> dict[str, float]:
    """The least time in seconds between two requests to a host, for each host that was asked more than once."""
    last: dict[str, float] = {}
    least: dict[str, float] = {}
    for request in requests:
        host, at = request["host"], request["at"]
        if host in last:
            least[host] = min(at - last[host], least.get(host, at - last[host]))
        last[host] = at
    return least


def asked_again(requests: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Requests for a page that had been answered before in the same window: none, if a window validates each source
    once. (A page that failed may be tried again; one that leads there by a redirect may be passed again.)"""
    answered: set[tuple[int, str, str]] = set()
    again = []
    for request in requests:
        key = (request["window"], request["host"], request["path"])
        if key in answered:
            again.append(request)
        if request["status"] in (200, 304):
            answered.add(key)
    return again


@contextmanager
def running_web(folder: Path, *, port: int = 0, window: int = 0) -> Iterator[ScriptedWeb]:
    """A scripted web for the length of a `with` block."""
    web = ScriptedWeb.start(folder, port=port, window=window)
    try:
        yield web
    finally:
        web.stop()
