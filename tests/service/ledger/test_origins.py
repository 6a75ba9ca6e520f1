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


def test_an_owner_finds_the_slots_that_others_took(ledger: Ledger, book: OriginBook) -> None:
    origin, other = "https://taken.example", "https://asked-by-its-owner.example"
    book.save([OriginState(origin, NOW, NOW + timedelta(seconds=30)), OriginState(other, NOW)])
    assert not {origin, other} & set(book.foreign_slots(3600.0))
    set_override(ledger, origin, min_gap_s=1.0, max_in_flight=None, actor="op")
    assert book.take_foreign_slot(origin, NOW + timedelta(seconds=40), 2.5) == NOW + timedelta(seconds=40)
    assert book.foreign_slots(3600.0)[origin] == NOW + timedelta(seconds=42.5)
    assert other not in book.foreign_slots(3600.0)
    book.save([OriginState(origin, NOW + timedelta(seconds=1))])  # the owner did not know yet, and cannot undo it
    assert book.foreign_slots(3600.0)[origin] == NOW + timedelta(seconds=42.5)
    assert book.foreign_slots(-60.0) == {}


def test_after_a_crash_nobody_is_asked_before_a_gap_is_over(ledger: Ledger, book: OriginBook) -> None:
    """What the owner before asked in its last seconds was never saved."""
    met, late, slow, new = (f"https://{name}.crashed.example" for name in ("met", "late", "slow", "new"))
    book.save([OriginState(met, NOW), OriginState(late, NOW + timedelta(hours=1), consecutive_errors=2)])
    set_override(ledger, slow, min_gap_s=12.5, max_in_flight=None, actor="op")
    died = leases.acquire_shard(ledger, "crashed", owner="a", ttl_s=60, now=NOW)
    assert not died.is_orphan
    died.holder.close()
    taken = leases.acquire_shard(ledger, "crashed", owner="b", ttl_s=60, now=NOW)
    assert taken.is_orphan
    heir = LedgerOriginBook(ledger, state=OriginState, robots=RobotsRecord, lease=taken, began=NOW)
    assert {state.origin: state for state in heir.load([met, late, slow, new])} == {
        met: OriginState(met, NOW, asked_until=NOW),
        late: OriginState(late, NOW + timedelta(hours=1), consecutive_errors=2, asked_until=NOW),
        slow: OriginState(slow, asked_until=NOW, min_gap_s=12.5),
        new: OriginState(new, asked_until=NOW),
    }
    leases.release(ledger, taken)
    given = leases.acquire_shard(ledger, "crashed", owner="c", ttl_s=60, now=NOW)
    assert not given.is_orphan
    leases.release(ledger, given)


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


def test_a_suppressed_url_is_known_by_its_identity_at_its_origin_alone(ledger: Ledger, book: OriginBook) -> None:
    page = "https://www.blog.example/a/post?id=7"
    suppress(
        ledger,
        scope="url",
        value="HTTPS://www.blog.example:443/a/b/../post?id=7#x",
        reason="asked",
        now=NOW,
        actor="op",
    )
    suppress(ledger, scope="url", value="https://other.example:8443/b", reason="asked", now=NOW, actor="op")
    origins = [
        "https://www.blog.example",
        "http://www.blog.example",
        "https://other.example",
        "https://other.example:8443",
    ]
    assert book.suppressed(origins) == set()
    assert book.suppressed_urls(origins[:3]) == {page}
    assert book.suppressed_urls(origins) == {page, "https://other.example:8443/b"}
    assert lift_suppression(ledger, scope="url", value="https://www.blog.example/a/post?id=%37", now=NOW)
    assert book.suppressed_urls(origins) == {"https://other.example:8443/b"}
    assert book.suppressed_urls([]) == set()
    with pytest.raises(ValueError, match="no URL that could be requested"):
        suppress(ledger, scope="url", value="/a/post", reason="asked", now=NOW, actor="op")


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
