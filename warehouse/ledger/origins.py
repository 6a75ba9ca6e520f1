"""Manners that outlive a window: origin clocks, robots copies, suppressions. Here: `LedgerOriginBook`, which fits
`crawl.ports.OriginBook` by shape. Not here: politeness itself (`crawl`).

An origin is `scheme://host[:port]`. Clocks only move forward: a slot that another shard reserved is never given away
again. Operators' overrides (`min_gap_s`, `max_in_flight`) are read by the crawler and written by `set_override` alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Any, Protocol, TypeVar

import pyarrow as pa

from transforms.schemas.dataset import TIME
from transforms.urls import identify, identify_many
from warehouse.ledger import keys
from warehouse.ledger.engine import Ledger, Transaction
from warehouse.ledger.leases import Lease, check_fence
from warehouse.ledger.sql import query, script

State = TypeVar("State")
Robots = TypeVar("Robots")

_ORIGIN = "VARCHAR(320) CHARACTER SET ascii COLLATE ascii_bin"
_SCOPES = ("origin", "host", "registrable_domain", "url")


class OriginStateLike(Protocol):
    """`crawl.ports.OriginState`."""

    origin: str
    next_eligible_at: datetime | None
    backoff_until: datetime | None
    consecutive_errors: int
    validators_sent: int
    validators_lied: int


class RobotsRecordLike(Protocol):
    """`crawl.ports.RobotsRecord`."""

    origin: str
    version: str
    status_class: str
    body: bytes
    fetched_at: datetime
    expires_at: datetime
    last_good_at: datetime | None


class LedgerOriginBook:
    """The ledger's origins. `state` and `robots` make the crawler's values (`crawl.ports.OriginState`,
    `RobotsRecord`): the rooms do not know each other, so whoever wires them hands both in.

    With a lease, `save` and `save_robots` are refused (`StaleFence`) once somebody else owns the shard. With `began`,
    every origin was asked until then for all that is known (`asked_until`): the owner before died, and whom it asked in
    its last seconds was not saved any more.
    """

    def __init__(
        self,
        ledger: Ledger,
        *,
        state: Callable[..., State],
        robots: Callable[..., Robots],
        lease: Lease | None = None,
        began: datetime | None = None,
    ) -> None:
        self._ledger, self._state, self._robots, self._lease = ledger, state, robots, lease
        self._began = began

    def load(self, origins: Sequence[str]) -> list[Any]:
        """States of those origins that were met before (after a crash of the owner before: of all)."""
        names = (
            "origin",
            "next_eligible_at",
            "backoff_until",
            "consecutive_errors",
            "min_gap_s",
            "max_in_flight",
            "validators_sent",
            "validators_lied",
        )
        known = [dict(zip(names, row, strict=True)) for row in self._by_origin("origins/load", origins)]
        if self._began is not None:
            met = {state["origin"] for state in known}
            known += [{"origin": origin} for origin in origins if origin not in met]
            known = [{**state, "asked_until": self._began} for state in known]
        return [self._state(**state) for state in known]

    def save(self, states: Sequence[OriginStateLike]) -> None:
        """Remember clocks, back-offs and what validators turned out to be worth. A clock is never set back."""
        newest = {state.origin: state for state in states}
        table = pa.table(
            {
                "origin": pa.array(newest, pa.string()),
                "next_eligible_at": pa.array([state.next_eligible_at for state in newest.values()], TIME),
                "backoff_until": pa.array([state.backoff_until for state in newest.values()], TIME),
                "consecutive_errors": pa.array([state.consecutive_errors for state in newest.values()], pa.uint32()),
                "validators_sent": pa.array([state.validators_sent for state in newest.values()], pa.uint64()),
                "validators_lied": pa.array([state.validators_lied for state in newest.values()], pa.uint64()),
            }
        )

        def work(tx: Transaction) -> None:
            self._check(tx)
            tx.stage("stage_origins", table, key=["origin"], types={"origin": _ORIGIN})
            tx.execute(query("origins/save"), {"fence": 0 if self._lease is None else self._lease.fence})

        if newest:
            self._ledger.run(work)

    def load_robots(self, origins: Sequence[str]) -> list[Any]:
        """Copies of robots.txt, expired ones too (the last good one may stand in)."""
        names = ("origin", "version", "status_class", "body", "fetched_at", "expires_at", "last_good_at")
        return [
            self._robots(**dict(zip(names, row, strict=True)))
            for row in self._by_origin("origins/load_robots", origins)
        ]

    def save_robots(self, records: Sequence[RobotsRecordLike]) -> None:
        """Keep copies, and every version that a verdict may have been based on. An older copy never replaces a newer
        one."""
        newest = {record.origin: record for record in sorted(records, key=lambda record: record.fetched_at)}
        values = newest.values()
        table = pa.table(
            {
                "origin": pa.array(newest, pa.string()),
                "version": pa.array([record.version for record in values], pa.string()),
                "status_class": pa.array([record.status_class for record in values], pa.string()),
                "body": pa.array([record.body for record in values], pa.binary()),
                "fetched_at": pa.array([record.fetched_at for record in values], TIME),
                "expires_at": pa.array([record.expires_at for record in values], TIME),
                "last_good_at": pa.array([record.last_good_at for record in values], TIME),
            }
        )

        def work(tx: Transaction) -> None:
            self._check(tx)
            version = "VARCHAR(128) CHARACTER SET ascii COLLATE ascii_bin"
            tx.stage(
                "stage_robots",
                table,
                key=["origin"],
                types={"origin": _ORIGIN, "version": version, "status_class": "VARCHAR(16)"},
            )
            for statement in script("origins/save_robots"):
                tx.execute(statement)

        if newest:
            self._ledger.run(work)

    def suppressed(self, origins: Sequence[str]) -> set[str]:
        """Those of the origins that may not be contacted: they, their host or their domain asked not to be."""
        wanted = list(dict.fromkeys(origins))
        known = identify_many([f"{origin}/" for origin in wanted])
        table = pa.table({"origin": pa.array(wanted, pa.string()), "host": known["host"], "site": known["site"]})

        def work(tx: Transaction) -> set[str]:
            tx.stage("stage_origins", table, key=["origin"], types={"origin": _ORIGIN})
            return {str(row[0]) for row in tx.rows(query("origins/suppressed"))}

        return self._ledger.run(work) if wanted else set()

    def suppressed_urls(self, origins: Sequence[str]) -> set[str]:
        """URL identities at these origins that may never be requested."""
        return {str(row[0]) for row in self._by_origin("origins/suppressed_urls", origins)}

    def take_foreign_slot(self, origin: str, at: datetime, gap_s: float) -> datetime:
        """Reserve the origin's next slot, not before `at`, `gap_s` apart from any other, after any back-off."""

        def work(tx: Transaction) -> datetime:
            params = {"origin": origin, "gap_s": gap_s, "at": at}
            tx.execute(query("origins/ensure"), params)
            row = tx.row(query("origins/clock"), params)
            assert row is not None
            next_eligible_at, backoff_until, min_gap_s = row
            slot = max(time for time in (at, next_eligible_at, backoff_until) if time is not None)
            gap = timedelta(seconds=max(gap_s, float(min_gap_s or 0.0)))
            tx.execute(query("origins/reserve"), {"next": slot + gap, "origin": origin})
            return slot

        return self._ledger.run(work)

    def foreign_slots(self, within_s: float) -> dict[str, datetime]:
        """Origins where anybody reserved a slot in the last `within_s` seconds of the server's clock, and when each is
        free again."""
        with self._ledger.transaction() as tx:
            return dict(tx.rows(query("origins/foreign_slots"), {"within_s": within_s}))

    def _by_origin(self, name: str, origins: Sequence[str]) -> list[tuple[Any, ...]]:
        wanted = list(dict.fromkeys(origins))
        if not wanted:
            return []

        def work(tx: Transaction) -> list[tuple[Any, ...]]:
            tx.stage(
                "stage_origins",
                pa.table({"origin": pa.array(wanted, pa.string())}),
                key=["origin"],
                types={"origin": _ORIGIN},
            )
            return tx.rows(query(name))

        return self._ledger.run(work)

    def _check(self, tx: Transaction) -> None:
        if self._lease is not None:
            check_fence(tx, self._lease)


def set_override(
    ledger: Ledger, origin: str, *, min_gap_s: float | None, max_in_flight: int | None, actor: str
) -> None:
    """An operator's wish for one origin; None: the default again. Kept in the audit log."""
    params = {"origin": origin, "min_gap_s": min_gap_s, "max_in_flight": max_in_flight, "actor": actor}

    def work(tx: Transaction) -> None:
        for statement in script("origins/set_override"):
            tx.execute(statement, params)

    ledger.run(work)


def suppress(
    ledger: Ledger, *, scope: str, value: str, reason: str, now: datetime, actor: str, verified_by: str | None = None
) -> None:
    """Never contact an origin, host, registrable domain or URL again (until `lift_suppression`). Safe to repeat.

    A URL stands for every spelling of its identity, and for nothing below it. Raises `ValueError` for what is none.
    """
    params = {
        "id": keys.uuid7(now),
        "scope": scope,
        "value": _suppressed_value(scope, value),
        "reason": reason[:255],
        "now": now,
        "actor": actor,
        "verified_by": verified_by,
    }

    def work(tx: Transaction) -> None:
        for statement in script("origins/suppress"):
            tx.execute(statement, params)

    ledger.run(work)


def lift_suppression(ledger: Ledger, *, scope: str, value: str, now: datetime) -> bool:
    """Allow contact again; the record stays. False: there was none."""
    params = {"scope": scope, "value": _suppressed_value(scope, value), "now": now}
    return bool(ledger.run(lambda tx: tx.execute(query("origins/lift"), params)))


def _suppressed_value(scope: str, value: str) -> str:
    """As the crawler compares it."""
    if scope not in _SCOPES:
        raise ValueError(f"a suppression's scope is one of {', '.join(_SCOPES)}, got {scope!r}")
    if scope != "url":
        return value
    found = identify(value)
    if found.identity is None:
        raise ValueError(f"{value!r} is no URL that could be requested ({found.reason}): suppress its host or domain")
    return found.identity
