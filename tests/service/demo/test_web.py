"""Every behaviour of the scripted web, at the level of bytes: what a crawler meets is what the script says."""

from __future__ import annotations

import gzip
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from email.utils import parsedate_to_datetime
from pathlib import Path

import httpx2
import pytest
import zstandard

from orchestration.demo import web as demo_web
from orchestration.demo.scenario import load_scenario, window_start
from orchestration.demo.web import ScriptedWeb, WebUnavailable, demo_crawl_settings, running_web
from orchestration.demo.web.behaviours import BEHAVIOURS, BOMB_BYTES
from orchestration.demo.web.pages import answer

pytestmark = pytest.mark.service
SCENARIO = load_scenario()


@pytest.fixture(scope="module")
def client() -> Iterator[httpx2.Client]:
    with httpx2.Client(trust_env=False, follow_redirects=False, timeout=10) as client:
        yield client


def get(client: httpx2.Client, web: ScriptedWeb, url: str, **headers: str) -> httpx2.Response:
    parsed = httpx2.URL(url)
    asked = {"Host": parsed.host, **{name.replace("_", "-"): value for name, value in headers.items()}}
    return client.get(f"http://{web.addresses[parsed.host]}:{web.port}{parsed.raw_path.decode()}", headers=asked)


def raw(web: ScriptedWeb, host: str, path: str, timeout: float = 5) -> socket.socket:
    """A plain connection on which the request has been sent."""
    connection = socket.create_connection((web.addresses[host], web.port), timeout=timeout)
    connection.sendall(f"GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
    return connection


def read(connection: socket.socket, limit: int = 1 << 30) -> bytes:
    parts, size = [], 0
    while size < limit and (part := connection.recv(65536)):
        parts.append(part)
        size += len(part)
    return b"".join(parts)


# -- well-behaved pages ------------------------------------------------------------


def test_every_host_has_an_address_of_its_own(scripted_web: ScriptedWeb, client: httpx2.Client) -> None:
    assert len(set(scripted_web.addresses.values())) == len(SCENARIO.hosts)
    assert all(address.startswith("127.10.") for address in scripted_web.addresses.values())
    for host in SCENARIO.hosts:
        assert get(client, scripted_web, f"http://{host}/").status_code == 200
    assert get(client, scripted_web, "http://acme-tools.test/nowhere").status_code == 404


def test_a_page_changes_with_the_window(scripted_web: ScriptedWeb, client: httpx2.Client) -> None:
    url = "http://gardening-weekly.test/spring-checklist"
    assert "http://acme-tools.test/pruners" in get(client, scripted_web, url).text
    scripted_web.set_window(3)
    assert scripted_web.window == 3
    assert "acme-tools" not in get(client, scripted_web, url).text


def test_every_well_behaved_page_is_sent_as_scripted(scripted_web: ScriptedWeb, client: httpx2.Client) -> None:
    """Status, headers and decoded body of each page in each window, whatever encoding its host uses."""
    compared = 0
    for window in range(7):
        scripted_web.set_window(window)
        for (host, path), page in SCENARIO.pages.items():
            said = answer(SCENARIO, host, path, window)
            if said.do in BEHAVIOURS or said.do in {"huge", "reset_once"} or (window and said.status == 200):
                continue
            got = get(client, scripted_web, page.url)
            assert got.status_code == said.status, page.url
            assert got.content == (b"" if said.status == 304 else said.body), page.url
            for name, value in said.headers:
                assert got.headers.get(name) == value or not value.isascii(), (page.url, name)
            compared += 1
    assert compared > 160


@pytest.mark.parametrize(
    ("url", "encoding"),
    [
        ("http://gardening-weekly.test/best-trowels", "gzip"),
        ("http://blog.hannahbakes.test/herb-garden", "br"),
        ("http://see-saw.test/swings", "zstd"),
        ("http://urban-sprout.test/balcony", None),
    ],
)
def test_encodings(scripted_web: ScriptedWeb, client: httpx2.Client, url: str, encoding: str | None) -> None:
    got = get(client, scripted_web, url, accept_encoding="gzip, br, zstd")
    assert got.headers.get("Content-Encoding") == encoding
    assert "acme-tools.test" in got.text
    assert "Content-Encoding" not in get(client, scripted_web, url, accept_encoding="identity").headers


def test_etag(scripted_web: ScriptedWeb, client: httpx2.Client) -> None:
    url = "http://thrifty-homestead.test/resources"
    etag = get(client, scripted_web, url).headers["ETag"]
    same = get(client, scripted_web, url, if_none_match=etag)
    assert (same.status_code, same.content, same.headers["ETag"]) == (304, b"", etag)
    assert get(client, scripted_web, url, if_none_match=f'"other", W/{etag}').status_code == 304
    scripted_web.set_window(2)
    changed = get(client, scripted_web, url, if_none_match=etag)
    assert changed.status_code == 200
    assert 'rel="NoFollow"' in changed.text


def test_last_modified(scripted_web: ScriptedWeb, client: httpx2.Client) -> None:
    url = "http://allotment-diary.test/july"
    scripted_web.set_window(3)
    first = get(client, scripted_web, url)
    assert "ETag" not in first.headers
    assert parsedate_to_datetime(first.headers["Last-Modified"]) == window_start(0)
    assert get(client, scripted_web, url, if_modified_since=first.headers["Last-Modified"]).status_code == 304
    scripted_web.set_window(5)
    changed = get(client, scripted_web, url, if_modified_since=first.headers["Last-Modified"])
    assert changed.status_code == 200
    assert parsedate_to_datetime(changed.headers["Last-Modified"]) == window_start(4)


def test_restless_validators_never_match(scripted_web: ScriptedWeb, client: httpx2.Client) -> None:
    first = get(client, scripted_web, "http://restless-tags.test/same")
    second = get(client, scripted_web, "http://restless-tags.test/same", if_none_match=first.headers["ETag"])
    assert second.status_code == 200
    assert second.content == first.content
    assert second.headers["ETag"] != first.headers["ETag"]


def test_no_validators(scripted_web: ScriptedWeb, client: httpx2.Client) -> None:
    headers = get(client, scripted_web, "http://compost-forum.test/t/881").headers
    assert "ETag" not in headers
    assert "Last-Modified" not in headers


def test_keep_alive_and_close(scripted_web: ScriptedWeb) -> None:
    with closing(raw(scripted_web, "tom.bloghaven.test", "/robots.txt")) as kept:
        kept.recv(65536)
        kept.sendall(b"GET /robots.txt HTTP/1.1\r\nHost: tom.bloghaven.test\r\n\r\n")
        assert kept.recv(65536).startswith(b"HTTP/1.1 404")
    with closing(raw(scripted_web, "diy-dan.test", "/robots.txt")) as closed:
        assert b"Connection: close" in read(closed)  # and then the end of the stream


def test_robots(scripted_web: ScriptedWeb, client: httpx2.Client) -> None:
    said = []
    for window in range(7):
        scripted_web.set_window(window)
        quiet = get(client, scripted_web, "http://quietgarden.test/robots.txt")
        night = get(client, scripted_web, "http://nightshift.test/robots.txt")
        steady = get(client, scripted_web, "http://steady-robots.test/robots.txt")
        said.append(("Disallow: /reading" in quiet.text, night.status_code, steady.status_code))
    assert said == [
        (False, 503, 200), (False, 503, 200), (False, 404, 200), (True, 404, 500), (True, 404, 200), (True, 404, 200),
        (True, 404, 200),
    ]  # fmt: skip


def test_a_raw_location_is_sent_as_written(scripted_web: ScriptedWeb) -> None:
    with closing(raw(scripted_web, "rosa.bloghaven.test", "/archive/12")) as connection:
        assert "Location: /glück\r\n".encode() in connection.recv(65536)


def test_a_long_chain_of_redirects_ends(scripted_web: ScriptedWeb, client: httpx2.Client) -> None:
    scripted_web.set_window(4)
    path, hops = "/maze", 0
    while (got := get(client, scripted_web, f"http://roundabout.test{path}")).status_code == 302:
        path, hops = got.headers["Location"], hops + 1
    assert hops == 9


# -- misbehaviour ------------------------------------------------------------


def test_slow_first_byte(scripted_web: ScriptedWeb) -> None:
    scripted_web.set_window(2)
    connection = raw(scripted_web, "slow.turtlehost.test", "/shop-list", timeout=0.3)
    with closing(connection), pytest.raises(TimeoutError):
        connection.recv(1)


def test_drip(scripted_web: ScriptedWeb) -> None:
    scripted_web.set_window(2)
    with closing(raw(scripted_web, "drip.turtlehost.test", "/guide", timeout=0.3)) as connection:
        parts = [connection.recv(65536) for _ in range(4)]  # each read succeeds within the timeout
    assert all(parts)
    assert len(b"".join(parts[1:])) <= 8


def test_endless(scripted_web: ScriptedWeb) -> None:
    scripted_web.set_window(4)
    with closing(raw(scripted_web, "endless.turtlehost.test", "/feed")) as connection:
        got = read(connection, 12 * 1024 * 1024)
    assert len(got) >= 12 * 1024 * 1024
    assert b"Transfer-Encoding: chunked" in got[:300]
    assert b"acme-tools.test" not in got


def test_gzip_bomb(scripted_web: ScriptedWeb) -> None:
    scripted_web.set_window(3)
    with closing(raw(scripted_web, "bombshelter.test", "/gzip")) as connection:
        head, _, body = read(connection).partition(b"\r\n\r\n")
    assert b"Content-Encoding: gzip" in head
    assert len(body) < 50_000
    assert len(gzip.decompress(body)) == BOMB_BYTES + 3


def test_header_bomb(scripted_web: ScriptedWeb) -> None:
    scripted_web.set_window(4)
    with closing(raw(scripted_web, "bombshelter.test", "/headers")) as connection:
        assert read(connection).index(b"\r\n\r\n") > 1024 * 1024


def test_not_gzip(scripted_web: ScriptedWeb) -> None:
    scripted_web.set_window(5)
    with closing(raw(scripted_web, "bombshelter.test", "/not-gzip")) as connection:
        head, _, body = read(connection).partition(b"\r\n\r\n")
    assert b"Content-Encoding: gzip" in head
    assert body.startswith(b"<!DOCTYPE")


def test_short_body(scripted_web: ScriptedWeb) -> None:
    scripted_web.set_window(2)
    with closing(raw(scripted_web, "shortchange.test", "/promo")) as connection:
        head, _, body = read(connection).partition(b"\r\n\r\n")
    promised = int(head.rpartition(b"Content-Length: ")[2].partition(b"\r\n")[0])
    assert len(body) == promised // 3
    assert b"acme-tools.test" not in body


def test_resets(scripted_web: ScriptedWeb) -> None:
    scripted_web.set_window(2)
    with closing(raw(scripted_web, "slammed-door.test", "/list")) as connection, pytest.raises(ConnectionResetError):
        connection.recv(1)
    scripted_web.set_window(3)
    with closing(raw(scripted_web, "slammed-door.test", "/list")) as connection:
        assert connection.recv(100).startswith(b"HTTP/1.1 200")
        with pytest.raises(ConnectionResetError):
            read(connection)


def test_the_second_attempt_of_a_window_is_answered(tmp_path: Path) -> None:
    with running_web(tmp_path, window=3) as web:
        with closing(raw(web, "flaky-wifi.test", "/map")) as connection, pytest.raises(ConnectionResetError):
            connection.recv(1)
        with closing(raw(web, "flaky-wifi.test", "/map")) as connection:
            assert connection.recv(100).startswith(b"HTTP/1.1 200")
        assert [request["status"] for request in web.requests()] == [0, 200]


def test_huge(scripted_web: ScriptedWeb, client: httpx2.Client) -> None:
    got = get(client, scripted_web, "http://bigpage.test/late")
    assert len(got.content) > 10 * 1024 * 1024
    again = get(client, scripted_web, "http://bigpage.test/late", if_none_match=got.headers["ETag"])
    assert again.status_code == 304


def test_tls_is_not_spoken(scripted_web: ScriptedWeb) -> None:
    plain = socket.create_connection((scripted_web.addresses["half-migrated.test"], scripted_web.port), timeout=5)
    context = ssl.create_default_context()
    with closing(plain), pytest.raises((ssl.SSLError, ConnectionError)):
        context.wrap_socket(plain, server_hostname="half-migrated.test")


# -- the log, the names, the process ------------------------------------------------------------


def test_the_log_tells_what_was_asked(scripted_web: ScriptedWeb, client: httpx2.Client) -> None:
    before = time.monotonic()
    first = get(client, scripted_web, "http://tom.bloghaven.test/p/3", user_agent="probe/1.0")
    get(client, scripted_web, "http://tom.bloghaven.test/p/3", if_none_match=first.headers["ETag"])
    one, two = scripted_web.requests()
    assert (one["host"], one["path"], one["status"], one["conditional"]) == ("tom.bloghaven.test", "/p/3", 200, False)
    assert (two["status"], two["conditional"], two["window"]) == (304, True, 0)
    assert one["user_agent"] == "probe/1.0"
    assert before <= one["at"] <= two["at"] <= time.monotonic()
    assert scripted_web.requests(after=1) == [two]


def test_names_leave_the_dns(scripted_web: ScriptedWeb) -> None:
    assert "gone-tomorrow.test" in scripted_web.test_hosts(2)
    assert "gone-tomorrow.test" not in scripted_web.test_hosts(3)
    assert scripted_web.test_hosts() == demo_web.loopback_hosts(scripted_web.port)
    settings = scripted_web.crawl_settings(3)
    assert settings == demo_crawl_settings(scripted_web.port, 3)
    assert settings.test_hosts["acme-tools.test"].endswith(f":{scripted_web.port}")
    assert settings.origin_gap_s > 0


def test_attach_and_stop(tmp_path: Path) -> None:
    with pytest.raises(WebUnavailable, match="no scripted web runs here"):
        ScriptedWeb.attach(tmp_path / "web.json")
    web = ScriptedWeb.start(tmp_path, window=4, detach=True)
    other = ScriptedWeb.attach(web.state)
    assert (other.pid, other.window) == (web.pid, 4)
    other.stop()
    assert web.process is not None
    assert web.process.wait(10) == 0
    assert not web.state.exists()
    web.stop()
    with pytest.raises(WebUnavailable, match="does not answer"):
        other.set_window(1)


def test_a_taken_port_is_named(scripted_web: ScriptedWeb, tmp_path: Path) -> None:
    with pytest.raises(WebUnavailable, match=f"port {scripted_web.port} is in use"):
        ScriptedWeb.start(tmp_path, port=scripted_web.port)


def test_the_server_ends_with_whoever_started_it(tmp_path: Path) -> None:
    script = (
        "import pathlib, os; from orchestration.demo.web import ScriptedWeb\n"
        f"web = ScriptedWeb.start(pathlib.Path({str(tmp_path)!r})); print(web.pid, flush=True); os._exit(0)"
    )
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    pid, deadline = int(ran.stdout), time.monotonic() + 10
    while _runs(pid) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not _runs(pid)


def _runs(pid: int) -> bool:
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False


def test_zstd_bodies_carry_their_size(scripted_web: ScriptedWeb) -> None:
    """As servers send them. A crawler decodes under a cap while it streams and must not rely on it."""
    host = "see-saw.test"
    connection = socket.create_connection((scripted_web.addresses[host], scripted_web.port), timeout=5)
    with closing(connection):
        connection.sendall(
            f"GET /swings HTTP/1.1\r\nHost: {host}\r\nAccept-Encoding: zstd\r\nConnection: close\r\n\r\n".encode()
        )
        body = read(connection).partition(b"\r\n\r\n")[2]
    assert zstandard.frame_content_size(body) == len(answer(SCENARIO, host, "/swings", 0).body)


def test_an_earlier_server_is_ended(tmp_path: Path) -> None:
    ScriptedWeb.end_earlier(tmp_path / "web.json")  # none: nothing to do
    web = ScriptedWeb.start(tmp_path, detach=True)
    ScriptedWeb.end_earlier(web.state)
    assert web.process is not None
    assert web.process.wait(10) == 0
    web.state.write_text(f'{{"pid": {web.pid}, "port": {web.port}, "addresses": {{"a.test": "127.10.0.1"}}}}')
    ScriptedWeb.end_earlier(web.state)
    assert not web.state.exists()
