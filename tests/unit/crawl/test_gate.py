"""The egress gate: what it refuses opens no socket; what it admits is connected to at the checked address alone."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from crawl.egress import (
    CountingNetwork,
    DnsCache,
    EgressGate,
    Network,
    Refused,
    Resolution,
    SystemResolver,
)
from crawl.egress.gate import ConnectFailed
from transforms.errors import PermanentError
from transforms.reasons import Reason

PORTS = (80, 443, 8080)


class FakeDns:
    """Answers in turn: a list per name; the last one stays."""

    def __init__(self, **answers: list[Resolution]) -> None:
        self.answers = {name.replace("_", "."): found for name, found in answers.items()}
        self.asked: list[str] = []

    async def resolve(self, host: str) -> Resolution:
        self.asked.append(host)
        await trio.lowlevel.checkpoint()
        found = self.answers.get(host, [Resolution((), Reason.DNS_NXDOMAIN, "unknown")])
        return found.pop(0) if len(found) > 1 else found[0]


class Unreachable(Network):
    async def connect(self, address: str, port: int) -> trio.abc.Stream:
        raise OSError(111, "refused")


def gate_of(dns: FakeDns | None = None, **more: object) -> tuple[EgressGate, CountingNetwork]:
    network = CountingNetwork(Unreachable())
    return EgressGate(PORTS, resolver=dns or FakeDns(), network=network, **more), network  # type: ignore[arg-type]


REFUSED_BEFORE_DNS = [
    ("", Reason.BAD_URL),
    ("not a url", Reason.BAD_URL),
    ("//example.com/", Reason.BAD_URL),
    ("http://", Reason.BAD_URL),
    ("http://exa mple.com/", Reason.BAD_URL),
    ("http://a..b/", Reason.BAD_URL),
    ("http://" + "a" * 64 + ".com/", Reason.BAD_URL),
    ("http://1.2.3.4.5/", Reason.BAD_URL),
    ("http://256.1.1.1/", Reason.BAD_URL),
    ("ftp://example.com/", Reason.BAD_SCHEME),
    ("file:///etc/passwd", Reason.BAD_SCHEME),
    ("gopher://example.com/", Reason.BAD_SCHEME),
    ("javascript:alert(1)", Reason.BAD_SCHEME),
    ("data:text/html,x", Reason.BAD_SCHEME),
    ("unix:///var/run/docker.sock", Reason.BAD_SCHEME),
    ("http://user@example.com/", Reason.URL_CREDENTIALS),
    ("http://user:pass@example.com/", Reason.URL_CREDENTIALS),
    ("http://:pass@example.com/", Reason.URL_CREDENTIALS),
    ("http://example.com@127.0.0.1/", Reason.URL_CREDENTIALS),
    ("http://example.com:22/", Reason.BAD_PORT),
    ("http://example.com:6379/", Reason.BAD_PORT),
    ("https://example.com:25/", Reason.BAD_PORT),
    ("http://localhost/", Reason.BLOCKED_NETWORK),
    ("http://LOCALHOST./", Reason.BLOCKED_NETWORK),
    ("http://foo.localhost/", Reason.BLOCKED_NETWORK),
    ("http://127.0.0.1/", Reason.BLOCKED_NETWORK),
    ("http://127.1/", Reason.BLOCKED_NETWORK),
    ("http://2130706433/", Reason.BLOCKED_NETWORK),
    ("http://0x7f000001/", Reason.BLOCKED_NETWORK),
    ("http://0x7f.0.0.1/", Reason.BLOCKED_NETWORK),
    ("http://0177.0.0.1/", Reason.BLOCKED_NETWORK),
    ("http://017700000001/", Reason.BLOCKED_NETWORK),
    ("http://0/", Reason.BLOCKED_NETWORK),
    ("http://0.0.0.0/", Reason.BLOCKED_NETWORK),
    ("http://10.1/", Reason.BLOCKED_NETWORK),
    ("http://169.254.169.254/latest/meta-data/", Reason.BLOCKED_NETWORK),
    ("http://[::1]/", Reason.BLOCKED_NETWORK),
    ("http://[::ffff:127.0.0.1]/", Reason.BLOCKED_NETWORK),
    ("http://[::ffff:7f00:1]/", Reason.BLOCKED_NETWORK),
    ("http://[64:ff9b::7f00:1]/", Reason.BLOCKED_NETWORK),
    ("http://[fe80::1]/", Reason.BLOCKED_NETWORK),
    ("http://[fd00:ec2::254]/", Reason.BLOCKED_NETWORK),
    ("http://127\u30020\u30020\u30021/", Reason.BLOCKED_NETWORK),
    ("http://\uff11\uff12\uff17.0.0.1/", Reason.BLOCKED_NETWORK),
    ("http://\u24db\u24de\u24d2\u24d0\u24db\u24d7\u24de\u24e2\u24e3/", Reason.BLOCKED_NETWORK),
    ("http://%31%32%37.0.0.1/", Reason.BLOCKED_NETWORK),
    ("http://127.0.0.1\t/", Reason.BLOCKED_NETWORK),
    ("http:\\\\127.0.0.1\\", Reason.BLOCKED_NETWORK),
    ("http:127.0.0.1", Reason.BLOCKED_NETWORK),
]


@pytest.mark.parametrize(("url", "reason"), REFUSED_BEFORE_DNS)
def test_refused_without_a_lookup_or_a_socket(url: str, reason: Reason) -> None:
    dns = FakeDns()
    gate, network = gate_of(dns)
    with pytest.raises(Refused) as refused:
        trio.run(gate.admit, url)
    assert refused.value.reason is reason
    assert dns.asked == []
    assert network.opened == []


PUBLIC, PRIVATE = "93.184.216.34", "10.0.0.5"


@pytest.mark.parametrize(
    "addresses",
    [(PRIVATE,), (PUBLIC, PRIVATE), (PRIVATE, PUBLIC), (PUBLIC, "::1"), (PUBLIC, "64:ff9b::a00:5"), ("fe80::1%2",)],
)
def test_one_private_address_refuses_the_name(addresses: tuple[str, ...]) -> None:
    gate, network = gate_of(FakeDns(evil_example=[Resolution(addresses)]))
    with pytest.raises(Refused) as refused:
        trio.run(gate.admit, "http://evil.example/")
    assert refused.value.reason is Reason.BLOCKED_NETWORK
    assert network.opened == []


def test_a_failed_lookup_refuses_and_never_skips_the_check() -> None:
    gate, network = gate_of(FakeDns(gone_example=[Resolution((), Reason.DNS_FAILED, "timeout")]))
    for url, reason in (("http://gone.example/", Reason.DNS_FAILED), ("http://nowhere.example/", Reason.DNS_NXDOMAIN)):
        with pytest.raises(Refused) as refused:
            trio.run(gate.admit, url)
        assert refused.value.reason is reason
    assert network.opened == []


def test_rebinding_the_name_is_looked_up_once_and_the_checked_address_connected_to() -> None:
    dns = FakeDns(rebind_example=[Resolution((PUBLIC,)), Resolution(("127.0.0.1",))])
    gate, network = gate_of(dns)

    async def main() -> None:
        admission = await gate.admit("http://rebind.example/")
        with pytest.raises(ConnectFailed):
            await gate.connect(admission, 1.0)

    trio.run(main)
    assert dns.asked == ["rebind.example"]
    assert network.opened == [(PUBLIC, 80)]


def test_rebinding_after_the_answer_has_expired_is_checked_anew() -> None:
    dns = FakeDns(rebind_example=[Resolution((PUBLIC,)), Resolution(("127.0.0.1",))])
    network = CountingNetwork(Unreachable())
    gate = EgressGate(PORTS, resolver=DnsCache(dns, ttl_s=0.0), network=network)

    async def main() -> None:
        await gate.admit("http://rebind.example/")
        await gate.admit("http://rebind.example/")

    with pytest.raises(Refused):
        trio.run(main)
    assert network.opened == []


def test_every_address_is_tried_in_order_and_no_other() -> None:
    gate, network = gate_of(FakeDns(two_example=[Resolution((PUBLIC, "2606:4700::1"))]))

    async def main() -> None:
        with pytest.raises(ConnectFailed) as failed:
            await gate.connect(await gate.admit("https://two.example/"), 1.0)
        assert failed.value.reason is Reason.CONNECT_FAILED

    trio.run(main)
    assert network.opened == [(PUBLIC, 443), ("2606:4700::1", 443)]


def test_test_hosts_are_the_only_way_to_loopback() -> None:
    gate, network = gate_of(
        test_hosts={"*.demo.test": "127.0.0.9:8000", "one.test": "127.0.0.8", "one.test:443": "127.0.0.7:4443"}
    )

    async def main() -> list[tuple[tuple[str, ...], int]]:
        urls = ["http://a.demo.test/", "http://x.y.demo.test/", "http://one.test:8080/", "https://one.test/"]
        return [((a := await gate.admit(url)).addresses, a.connect_port) for url in urls]

    assert trio.run(main) == [
        (("127.0.0.9",), 8000),
        (("127.0.0.9",), 8000),
        (("127.0.0.8",), 8080),
        (("127.0.0.7",), 4443),
    ]
    for url in ("http://demo.test.evil/", "http://127.0.0.9/", "http://demo.test:22/"):
        with pytest.raises(Refused):
            trio.run(gate.admit, url)
    assert network.opened == []


@pytest.mark.parametrize("value", ["10.0.0.1", "8.8.8.8:80", "example.com", "127.0.0.1:0", "127.0.0.1:x", ""])
def test_test_hosts_must_be_loopback(value: str) -> None:
    with pytest.raises(PermanentError, match="loopback"):
        EgressGate(PORTS, test_hosts={"a.test": value})


def test_the_request_target_keeps_an_empty_query_and_drops_the_fragment() -> None:
    gate, _ = gate_of()
    assert gate.inspect("http://EXAMPLE.com/a/../b?#x").path == "/b?"
    assert gate.inspect("https://example.com:443/").origin == "https://example.com"
    assert gate.inspect("http://example.com:8080/").host_header == "example.com:8080"


def test_dns_answers_are_shared_and_negative_ones_remembered(autojump_clock: trio.testing.MockClock) -> None:
    dns = FakeDns(a_example=[Resolution((PUBLIC,))], slow_example=[Resolution((), Reason.DNS_FAILED, "x")])
    cache = DnsCache(dns, ttl_s=300, nxdomain_ttl_s=3600, failure_ttl_s=30)

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            for _ in range(10):
                nursery.start_soon(cache.resolve, "a.example")
        assert dns.asked == ["a.example"]
        for _ in range(3):
            await cache.resolve("none.example")
            await cache.resolve("slow.example")
        assert dns.asked.count("none.example") == 1
        assert dns.asked.count("slow.example") == 1
        await trio.sleep(31)
        await cache.resolve("none.example")
        await cache.resolve("slow.example")
        assert dns.asked.count("none.example") == 1
        assert dns.asked.count("slow.example") == 2
        await trio.sleep(3600)
        await cache.resolve("none.example")
        assert dns.asked.count("none.example") == 2

    trio.run(main, clock=autojump_clock)


def test_the_system_resolver_says_nxdomain_for_a_name_that_cannot_be() -> None:
    answer = trio.run(SystemResolver(5.0).resolve, "no-such-name.invalid")
    assert answer.addresses == ()
    assert answer.failure in (Reason.DNS_NXDOMAIN, Reason.DNS_FAILED)


@pytest.fixture
def autojump_clock() -> trio.testing.MockClock:
    return trio.testing.MockClock(autojump_threshold=0)


def test_the_final_dot_of_a_name_is_no_way_around_its_clock_robots_and_suppressions() -> None:
    gate, _ = gate_of()
    assert gate.inspect("http://a.example./x").origin == gate.inspect("http://a.example/x").origin == "http://a.example"
    assert gate.inspect("http://a.example.:8080/").origin == "http://a.example:8080"
    assert gate.inspect("http://a.example./x").host_header == "a.example."
