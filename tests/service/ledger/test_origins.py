"""Manners between windows: clocks that never go back, robots copies with versions, suppressions, slots for other
shards."""

from __future__ import annotations

import threading
from datetime import datetime, timedelta

import pytest

from crawl.ports import OriginBook, OriginState, RobotsRecord
from tests.service.ledger.data import NOW
from warehouse.ledger import Ledger, StaleFence, leases
from warehouse.ledger.origins import LedgerOriginBook, lift_suppression, set_override, suppress

pytestmark = pytest.mark.service


@pytest.fixture
def book(ledger: Ledger) -> OriginBook:
    return LedgerOriginBook(ledger, state=OriginState, robots=RobotsRecord)


def test_clocks_move_forward_only(book: OriginBook) -> None:
    origin = "https://clock.example"
    assert book.load([origin]) == []
    state = OriginState(
        origin, NOW + timedelta(seconds=5), NOW + timedelta(minutes=9), 3, validators_sent=7, validators_lied=1
    )
    book.save([state])
    assert book.load([origin, "https://never-met.example"]) == [state]
    book.save([OriginState(origin, NOW, None, 0, validators_sent=8, validators_lied=1)])
    (after,) = book.load([origin])
    assert after == OriginState(origin, NOW + timedelta(seconds=5), None, 0, validators_sent=8, validators_lied=1)


def test_an_operators_override_survives_the_crawlers_saves(ledger: Ledger, book: OriginBook) -> None:
    origin = "https://slow.example"
    set_override(ledger, origin, min_gap_s=12.5, max_in_flight=2, actor="op")
    book.save([OriginState(origin, NOW, min_gap_s=0.0, max_in_flight=99)])
    (state,) = book.load([origin])
    assert (state.min_gap_s, state.max_in_flight) == (12.5, 2)
    with ledger.transaction() as tx:
        assert tx.rows("SELECT actor, action, subject FROM audit_log WHERE subject = %(o)s", {"o": origin}) == [
            ("op", "origin.override", origin)
        ]


def test_slots_for_other_shards_are_a_gap_apart_whoever_asks(book: OriginBook) -> None:
    origin = "https://shared.example"
    start = threading.Barrier(8)
    slots: list[datetime] = []

    def ask() -> None:
        start.wait()
        slots.append(book.take_foreign_slot(origin, NOW, 1.5))

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(slots) == [NOW + timedelta(seconds=1.5 * n) for n in range(8)]
    book.save([OriginState(origin, NOW, NOW + timedelta(hours=1))])  # its owner backs off, and knows of no slots
    assert book.take_foreign_slot(origin, NOW, 1.5) == NOW + timedelta(hours=1)


def test_robots_copies_keep_every_version_and_never_go_back(ledger: Ledger, book: OriginBook) -> None:
    origin = "https://robots.example"
    body = b"User-agent: *\r\nDisallow: /\x0c\xff\x00private"
    first = RobotsRecord(origin, "v1", "ok", body, NOW, NOW + timedelta(days=1), NOW)
    book.save_robots([first])
    assert book.load_robots([origin]) == [first]
    second = RobotsRecord(origin, "v2", "unreachable", body, NOW + timedelta(hours=2), NOW + timedelta(hours=3), NOW)
    book.save_robots([second])
    book.save_robots([first])
    assert book.load_robots([origin]) == [second]
    with ledger.transaction() as tx:
        versions = tx.rows(
            "SELECT version, body FROM robots_versions WHERE origin = %(o)s ORDER BY version", {"o": origin}
        )
    assert versions == [("v1", body), ("v2", body)]


def test_suppressions_by_origin_host_and_domain(ledger: Ledger, book: OriginBook) -> None:
    origins = [
        "https://a.gone.example:8443",
        "https://a.gone.example",
        "http://b.gone.example",
        "https://www.out.org",
        "https://fine.example",
        "http://127.0.0.9",
    ]
    suppress(ledger, scope="origin", value=origins[0], reason="asked", now=NOW, actor="op", verified_by="mail")
    suppress(ledger, scope="host", value="b.gone.example", reason="asked", now=NOW, actor="op")
    suppress(ledger, scope="registrable_domain", value="out.org", reason="asked", now=NOW, actor="op")
    suppress(ledger, scope="registrable_domain", value="out.org", reason="asked again", now=NOW, actor="op")
    assert book.suppressed(origins) == {origins[0], origins[2], origins[3]}
    assert lift_suppression(ledger, scope="registrable_domain", value="out.org", now=NOW)
    assert book.suppressed(origins) == {origins[0], origins[2]}
    assert book.suppressed([]) == set()


def test_a_stale_owner_saves_nothing(ledger: Ledger) -> None:
    old = leases.acquire_shard(ledger, "origins", owner="a", ttl_s=1, now=NOW)
    book = LedgerOriginBook(ledger, state=OriginState, robots=RobotsRecord, lease=old)
    book.save([OriginState("https://fenced.example", NOW)])
    new = leases.acquire_shard(ledger, "origins", owner="b", ttl_s=60, now=NOW + timedelta(seconds=2))
    with pytest.raises(StaleFence):
        book.save([OriginState("https://fenced.example", NOW + timedelta(hours=5))])
    with pytest.raises(StaleFence):
        book.save_robots([RobotsRecord("https://fenced.example", "v1", "ok", b"", NOW, NOW)])
    heir = LedgerOriginBook(ledger, state=OriginState, robots=RobotsRecord, lease=new)
    assert heir.load(["https://fenced.example"])[0].next_eligible_at == NOW
    assert heir.load_robots(["https://fenced.example"]) == []
    for lease in (old, new):
        leases.release(ledger, lease)
