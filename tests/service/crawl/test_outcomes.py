"""Every outcome, over real sockets: one hostile path, one row. The whole table is crawled once (one batch), so that it
takes as long as its slowest row."""

from __future__ import annotations

import gzip
import hashlib

import pytest

from crawl import run_batch
from crawl.config import CrawlSettings
from crawl.memory import MemoryOrigins, MemorySink, MemorySnapshots
from crawl.ports import FetchResult, FetchTask, Prior
from tests.fixtures.hostile import PAGE, HostileServer
from transforms.clock import WallClock
from transforms.reasons import Outcome, Reason

pytestmark = pytest.mark.service

F, B, X, D, G = Outcome.FETCHED, Outcome.BLOCKED, Outcome.FAILED, Outcome.DEFERRED, Outcome.GONE

# path or URL, outcome, reason, and what more must hold of the result
TABLE: list[tuple[str, Outcome, Reason, dict[str, object]]] = [
    # whole pages, however they are sent
    ("/plain", F, Reason.OK, {"http_status": 200, "body": PAGE, "attempt": 1, "validation_method": "full_body"}),
    ("https:/plain", F, Reason.OK, {"body": PAGE}),
    ("/gzip", F, Reason.OK, {"body": PAGE, "wire_bytes": len(gzip.compress(PAGE))}),
    ("/gzip-members", F, Reason.OK, {"body": PAGE}),
    ("/deflate-zlib", F, Reason.OK, {"body": PAGE}),
    ("/deflate-raw", F, Reason.OK, {"body": PAGE}),
    ("/br", F, Reason.OK, {"body": PAGE}),
    ("/zstd", F, Reason.OK, {"body": PAGE}),
    ("/stacked", F, Reason.OK, {"body": PAGE}),
    ("/mislabelled", F, Reason.OK, {"body": PAGE}),
    ("/chunked", F, Reason.OK, {"body": PAGE}),
    ("/no-length", F, Reason.OK, {"body": PAGE}),
    ("/http10", F, Reason.OK, {"body": PAGE}),
    ("/continue", F, Reason.OK, {"body": PAGE}),
    ("/garbage-after", F, Reason.OK, {"body": PAGE}),
    ("/lf-only", F, Reason.OK, {"body": PAGE}),
    ("/no-type", F, Reason.OK, {"body": PAGE}),
    (
        "/duplicate-headers",
        F,
        Reason.OK,
        {
            "x_robots_tag": ["noindex", "otherbot: none"],
            "link_header": ["</a>; rel=canonical", "</b>; rel=alternate"],
            "etag": '"one"',
        },
    ),
    ("/beacon", F, Reason.OK, {}),
    ("/soft-404", F, Reason.OK, {"warnings": ["soft_404"]}),
    ("/parked", F, Reason.OK, {"warnings": ["parked"]}),
    # limits
    ("/big?size=11000000", F, Reason.BODY_TRUNCATED, {}),
    ("/endless", F, Reason.BODY_TRUNCATED, {}),
    ("/bomb-gzip", X, Reason.EXPANSION_RATIO, {"body": None}),
    ("/bomb-br", X, Reason.EXPANSION_RATIO, {"body": None}),
    ("/bomb-zstd", X, Reason.EXPANSION_RATIO, {"body": None}),
    ("/bomb-stacked", X, Reason.EXPANSION_RATIO, {"body": None}),
    ("/gzip-nothing", X, Reason.BAD_ENCODING, {"body": None}),
    ("/tiny-chunks", X, Reason.PROTOCOL_ERROR, {"body": None, "attempt": 1}),
    ("/lines", F, Reason.OK, {"body": b"<p>line\r\n" * 15_000}),
    ("/stacked-deep", X, Reason.BAD_ENCODING, {"body": None}),
    ("/unknown-encoding", X, Reason.BAD_ENCODING, {"body": None}),
    ("/gzip-garbage", X, Reason.BAD_ENCODING, {"body": None}),
    ("/compressed-unsaid", X, Reason.BAD_ENCODING, {"body": None}),
    ("/gzip-cut", X, Reason.INCOMPLETE_BODY, {"body": None, "http_status": 200}),
    ("/half-body", X, Reason.INCOMPLETE_BODY, {"body": None, "attempt": 2}),
    ("/half-chunked", X, Reason.INCOMPLETE_BODY, {"body": None}),
    ("/many-headers", X, Reason.HEADERS_TOO_LARGE, {"http_status": None}),
    ("/drip", X, Reason.TOTAL_TIMEOUT, {"body": None, "http_status": 200}),
    ("/drip-head", X, Reason.FIRST_BYTE_TIMEOUT, {"http_status": None}),
    ("/silent", X, Reason.FIRST_BYTE_TIMEOUT, {"http_status": None}),
    ("/pdf", X, Reason.UNSUPPORTED_TYPE, {"content_type": "application/pdf", "http_status": 200}),
    ("/no-type-binary", X, Reason.UNSUPPORTED_TYPE, {}),
    ("/empty", X, Reason.EMPTY_BODY, {}),
    # the connection and the protocol
    ("/reset", X, Reason.CONNECTION_RESET, {"attempt": 2}),
    ("/close", X, Reason.CONNECTION_RESET, {}),
    ("/not-http", X, Reason.PROTOCOL_ERROR, {"attempt": 1}),
    ("/two-lengths", X, Reason.PROTOCOL_ERROR, {}),
    ("/continue-forever", X, Reason.PROTOCOL_ERROR, {}),
    ("https://wrong.name.test/plain", X, Reason.TLS_FAILED, {}),
    ("http://refused.test/plain", X, Reason.CONNECT_FAILED, {}),
    ("http://no-such-host.invalid/", X, Reason.DNS_NXDOMAIN, {}),
    # statuses
    ("/status?code=401", B, Reason.HTTP_401, {"http_status": 401}),
    ("/status?code=403", B, Reason.HTTP_403, {}),
    ("/status?code=404", G, Reason.HTTP_404, {"http_status": 404, "body": None}),
    ("/status?code=410", G, Reason.HTTP_410, {}),
    ("/status?code=418", X, Reason.HTTP_4XX, {}),
    ("/status?code=429", D, Reason.HTTP_429, {}),
    ("/status?code=500", X, Reason.HTTP_5XX, {"attempt": 2}),
    ("/status?code=503", D, Reason.HTTP_503, {}),
    ("/status?code=202", X, Reason.HTTP_UNEXPECTED, {}),
    ("/status?code=206", X, Reason.HTTP_UNEXPECTED, {}),
    ("/no-content", X, Reason.HTTP_UNEXPECTED, {"http_status": 204}),
    ("/304-unasked", X, Reason.HTTP_UNEXPECTED, {"http_status": 304}),
    ("/retry-after?after=3600&code=503", D, Reason.HTTP_503, {"retry_after_s": 3600, "attempt": 1}),
    ("/flaky?times=1", F, Reason.OK, {"attempt": 2}),
    # redirects
    ("/redirect?to=/plain", F, Reason.OK, {"is_redirected": True, "body": PAGE}),
    ("/redirect?to=/plain&code=308", F, Reason.OK, {}),
    ("/redirect?to=https://tls.example.test/plain", F, Reason.OK, {"final_url": "https://tls.example.test/plain"}),
    ("/redirect-raw", F, Reason.OK, {"body": PAGE}),
    ("/cookie-gate", F, Reason.OK, {"body": PAGE}),
    ("/chain?left=5", F, Reason.OK, {}),
    ("/chain?left=6", X, Reason.TOO_MANY_REDIRECTS, {}),
    ("/loop-a", X, Reason.REDIRECT_LOOP, {}),
    ("/redirect-none", X, Reason.BAD_REDIRECT, {}),
    ("/redirect-two", X, Reason.BAD_REDIRECT, {}),
    ("/redirect?to=http://[", X, Reason.BAD_REDIRECT, {}),
    ("/redirect?to=http://10.0.0.1/", B, Reason.BLOCKED_NETWORK, {}),
    ("/redirect?to=http://169.254.169.254/latest", B, Reason.BLOCKED_NETWORK, {}),
    ("/redirect?to=http://[::ffff:127.0.0.1]/", B, Reason.BLOCKED_NETWORK, {}),
    ("/redirect?to=ftp://a.example.test/", B, Reason.BAD_SCHEME, {}),
    ("/redirect?to=http://a.example.test:22/", B, Reason.BAD_PORT, {}),
    ("/redirect?to=http://u:p@a.example.test/", B, Reason.URL_CREDENTIALS, {}),
    ("/redirect?to=http://deny.example.test/plain", B, Reason.ROBOTS_DENIED, {}),
    ("/redirect?to=/wp-login.php?redirect_to=x", B, Reason.LOGIN_REDIRECT, {}),
    # gates before any request
    ("http://127.0.0.1/", B, Reason.BLOCKED_NETWORK, {}),
    ("http://0x7f.1/", B, Reason.BLOCKED_NETWORK, {}),
    ("gopher://a.example.test/", B, Reason.BAD_SCHEME, {}),
    ("http://a.example.test:6379/", B, Reason.BAD_PORT, {}),
    ("nonsense", B, Reason.BAD_URL, {}),
    ("http://optout.example.test/plain", B, Reason.SUPPRESSED, {}),
    # robots.txt
    ("http://deny.example.test/plain", B, Reason.ROBOTS_DENIED, {}),
    ("http://robots503.example.test/plain", B, Reason.ROBOTS_UNREACHABLE, {}),
    ("http://robots500.example.test/plain", B, Reason.ROBOTS_UNREACHABLE, {}),
    ("http://robotsstall.example.test/plain", B, Reason.ROBOTS_UNREACHABLE, {}),
    ("http://robots401.example.test/plain", F, Reason.OK, {}),
    ("http://robotsredirect.example.test/plain", B, Reason.ROBOTS_DENIED, {}),
    ("http://robotsredirect.example.test/gzip", F, Reason.OK, {}),
    ("http://robotsloop.example.test/plain", F, Reason.OK, {}),
    ("http://robotsprivate.example.test/plain", B, Reason.ROBOTS_UNREACHABLE, {}),
    # blocks and lies
    ("/challenge?code=403", B, Reason.CHALLENGE, {"http_status": 403}),
    ("/challenge?code=200", B, Reason.CHALLENGE, {"http_status": 200}),
    ("/challenge-unmarked-header?code=200", B, Reason.CHALLENGE, {"http_status": 200}),
    ("/challenge-unmarked-header?code=503", B, Reason.CHALLENGE, {"http_status": 503}),
    ("/challenge-deep", B, Reason.CHALLENGE, {}),
]


def url_of(number: int, place: str) -> str:
    """A host of its own for every row, so that rows do not wait for each other."""
    if place.startswith("/"):
        return f"http://row{number}.example.test{place}"
    if place.startswith("https:/") and not place.startswith("https://"):
        return f"https://row{number}.example.test{place[6:]}"
    return place


@pytest.fixture(scope="module")
def results(hostile: HostileServer) -> dict[str, FetchResult]:
    sink = MemorySink()
    tasks = [FetchTask(number, url_of(number, row[0])) for number, row in enumerate(TABLE)]
    hosts = hostile.test_hosts | {"wrong.name.test": f"127.0.0.1:{hostile.port}", "refused.test": "127.0.0.1:1"}
    run_batch(
        tasks,
        settings=settings_of(hostile, test_hosts=hosts),
        sink=sink,
        snapshots=MemorySnapshots(),
        origins=MemoryOrigins(suppressed=["optout.example.test"]),
        clock=WallClock(),
    )
    return {TABLE[key][0]: result for key, result in sink.by_key.items()}


def settings_of(server: HostileServer, **more: object) -> CrawlSettings:
    values: dict[str, object] = {
        "test_hosts": server.test_hosts,
        "test_ca_file": server.ca_file,
        "origin_gap_s": 0.01,
        "connect_timeout_s": 2.0,
        "first_byte_timeout_s": 0.6,
        "total_timeout_s": 1.5,
        "retry_base_s": 0.05,
        "origin_backoff_base_s": 0.1,
        "max_attempts": 2,
        "max_backoff_wait_s": 5.0,
    }
    return CrawlSettings(**(values | more))  # type: ignore[arg-type]


@pytest.mark.parametrize(("place", "outcome", "reason", "more"), TABLE, ids=[row[0] for row in TABLE])
def test_outcome(
    results: dict[str, FetchResult], place: str, outcome: Outcome, reason: Reason, more: dict[str, object]
) -> None:
    result = results[place]
    assert (result.outcome, result.reason) == (outcome, reason), result.detail
    for name, value in more.items():
        assert getattr(result, name) == value, name
    assert result.hops, "every outcome says at which gate"
    assert all(hop.reason is Reason.OK for hop in result.hops[:-1])
    if result.hops[-1].gate == "response" and reason not in (
        Reason.TOO_MANY_REDIRECTS,
        Reason.REDIRECT_LOOP,
        Reason.BAD_REDIRECT,
    ):
        assert result.hops[-1].reason is reason
    if outcome is Outcome.FETCHED:
        assert result.body is not None
        assert result.content_hash == hashlib.sha256(result.body).digest()
    else:
        assert result.detail
        assert result.body is None


def test_the_user_agent_is_honest_and_says_whom_to_ask(hostile: HostileServer, results: dict[str, FetchResult]) -> None:
    agents = {seen.headers["user-agent"] for seen in hostile.log}
    assert len(agents) == 1
    assert agents.pop().startswith("BacklinksMonitor/1.0 (+https://")


def test_robots_comes_first_at_every_host(hostile: HostileServer, results: dict[str, FetchResult]) -> None:
    first: dict[tuple[str, bool], str] = {}
    for seen in hostile.log:
        first.setdefault((seen.host, seen.tls), seen.path)
    assert set(first.values()) == {"/robots.txt"}


def test_refused_rows_sent_nothing(hostile: HostileServer, results: dict[str, FetchResult]) -> None:
    hosts = {seen.host for seen in hostile.log}
    assert "optout.example.test" not in hosts
    assert not [seen for seen in hostile.requests("deny.example.test") if seen.path != "/robots.txt"]
    assert not [seen for seen in hostile.requests("robots503.example.test") if seen.path != "/robots.txt"]


def test_tls_names_and_host_stay_the_name(hostile: HostileServer, results: dict[str, FetchResult]) -> None:
    seen = hostile.requests("tls.example.test")
    assert seen
    assert all(request.tls for request in seen)
    assert results["/redirect?to=https://tls.example.test/plain"].hops[-1].address == "127.0.0.1"


def test_connections_are_kept_alive_and_closed_at_the_end(hostile: HostileServer) -> None:
    before = hostile.connections
    sink = MemorySink()
    tasks = [FetchTask(n, f"http://keep.example.test/plain?{n}") for n in range(20)]
    run_batch(
        tasks,
        settings=settings_of(hostile),
        sink=sink,
        snapshots=MemorySnapshots(),
        origins=MemoryOrigins(),
        clock=WallClock(),
    )
    assert {r.reason for r in sink.results} == {Reason.OK}
    assert hostile.connections == before + 1


def test_conditional_requests_over_the_wire(hostile: HostileServer) -> None:
    digest = hashlib.sha256(PAGE).digest()
    urls = ["http://etag.example.test/etag", "http://etag.example.test/etag-ignored"]
    tasks = [FetchTask(n, url, prior=Prior(digest, "k", url, "text/html", '"v1"')) for n, url in enumerate(urls)]
    sink, origins = MemorySink(), MemoryOrigins()
    run_batch(
        tasks,
        settings=settings_of(hostile),
        sink=sink,
        snapshots=MemorySnapshots(["k"]),
        origins=origins,
        clock=WallClock(),
    )
    assert sink.by_key[0].outcome is Outcome.NOT_MODIFIED
    assert (sink.by_key[0].content_hash, sink.by_key[0].http_status) == (digest, 304)
    assert (sink.by_key[1].outcome, sink.by_key[1].content_hash) == (Outcome.FETCHED, digest)
    state = origins.states["http://etag.example.test"]
    assert (state.validators_sent, state.validators_lied) == (2, 1)


def test_a_head_that_comes_in_one_piece_has_the_same_limit(hostile: HostileServer) -> None:
    sink = MemorySink()
    run_batch(
        [FetchTask(0, "http://wide.example.test/wide-head")],
        settings=settings_of(hostile, max_header_bytes=4096),
        sink=sink,
        snapshots=MemorySnapshots(),
        origins=MemoryOrigins(),
        clock=WallClock(),
    )
    assert sink.by_key[0].reason is Reason.HEADERS_TOO_LARGE
