"""A change of the rules of URL identity, brought to a ledger. Here: `preview` (a dry run) and `migrate_identities`.
Not here: the guard that writers pass and what look-ups read meanwhile (`identities`), facts in ClickHouse
(`warehouse.clickhouse.merges`).

Three phases, each resumed by running it again after any kill:
- *planning*: every URL's identity under the new rules is worked out; those that change are noted. Code of the old version
  goes on working and sees nothing of it.
- the *switch*: one transaction that waits for the writers under way, plans what they wrote, rewrites target rules and sets
  the version. From here on old code is refused and new code is let in; it reads both versions.
- *rewriting*: in batches by id. An unchanged URL gets its new hash, a changed one its new name; both keep their id, and so
  their history. A URL whose new identity another one has is *merged* into it: the one spelled so already stays, else the
  oldest. Its edges go over; where both have an edge, the older id stays and takes the other's checks, occurrences, alerts
  and discoveries, with a row in `backlink_merges`, an audit row and an event. A URL that has no identity any more is
  *refused*: it is kept as it was, its edges are kept and not checked any more (no link could be found for them).

What the old rules folded into one URL cannot be taken apart: only identities are kept, not spellings. An edge that is in
a window under way when it is merged keeps that check in ClickHouse only, until its facts are moved: better let windows
under way end before the switch.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import polars as pl
import pyarrow as pa

from transforms.arrays import frame_of
from transforms.errors import TransientError
from transforms.urls import Normalization
from warehouse.ledger import keys
from warehouse.ledger.engine import Ledger, Transaction
from warehouse.ledger.identities import IdentityVersionMismatch
from warehouse.ledger.sql import query, script

BATCH = 5_000
"""URLs a transaction; imports wait for at most one of them."""
EDGE_BUDGET = 5_000
"""Edges of merged URLs a transaction."""
EXAMPLES = 5

Progress = Callable[[str, int, int], None]
"""Phase, URLs done, URLs in all."""


@dataclass(frozen=True)
class Example:
    """One URL that changes. `became` is its new identity, or why it is refused."""

    verdict: str
    url: str
    became: str
    edges: int


@dataclass(frozen=True)
class Outcome:
    """What a change of version does (`preview`) or did. Counts are URLs unless they say otherwise."""

    from_version: int
    to_version: int
    unchanged: int = 0
    renamed: int = 0
    merged: int = 0
    refused: int = 0
    edges_merged: int = 0
    """Edges that became one with another (`migrate_identities` only)."""
    examples: tuple[Example, ...] = field(default=())


def preview(ledger: Ledger, *, progress: Progress = lambda *_: None, batch: int = BATCH) -> Outcome:
    """What `migrate_identities` would do now. Nothing is kept. Reads every URL once.

    Raises `IdentityVersionMismatch` when the ledger is newer than the ledger's `rules`.
    """
    rules = ledger.rules
    with ledger.transaction() as tx:
        version = _version(tx, rules)
        if version == rules.version:
            return Outcome(version, version)
        ceiling, after, seen = _highest(tx), 0, 0
        tx.stage("stage_preview", _CHANGES.empty_table(), key=["url_id"], index=["new_hash"], types=_TYPES)
        while True:
            read, changes = _changes(tx, rules, version, after, ceiling, batch)
            if not read.num_rows:
                break
            tx.stage("stage_changes", changes, key=["url_id"], types=_TYPES)
            tx.execute("INSERT INTO stage_preview SELECT * FROM stage_changes")
            after, seen = read["id"][-1].as_py(), seen + read.num_rows
            progress("planning", after, ceiling)
        tx.derive("stage_judged", query("identities/preview").replace("{from}", str(version)), key=["url_id"])
        counts = {verdict: int(count) for verdict, count in tx.rows(query("identities/preview_counts"))}
        examples = tx.rows(query("identities/preview_examples"), {"limit": EXAMPLES})
    changed = sum(counts.values())
    return Outcome(
        version, rules.version, seen - changed, counts.get("renamed", 0), counts.get("merged", 0), counts.get("refused", 0),
        examples=tuple(Example(*row) for row in examples),
    )  # fmt: skip


def migrate_identities(
    ledger: Ledger,
    *,
    actor: str,
    clock: Callable[[], datetime],
    progress: Progress = lambda *_: None,
    batch: int = BATCH,
    edge_budget: int = EDGE_BUDGET,
    restart: bool = False,
) -> Outcome:
    """Bring the ledger to the version of its `rules`; goes on where a killed run stopped, and does nothing when it is there.

    `restart` throws away an unfinished plan (the rules were changed since); after the switch there is no way back. Raises
    `IdentityVersionMismatch` for a ledger that is newer than the rules, `TransientError` while another migration runs.
    """
    with _only_one(ledger):
        run = _Run(ledger, actor, clock, progress, batch, edge_budget)
        if restart:
            run.forget_plan()
        run.begin()
        while run.plan():
            pass
        run.rewrite()
        return run.outcome()


def merged_edges(ledger: Ledger) -> pa.Table:
    """Every edge that ever became another one: `loser_id`, `survivor_id`, `project_id`, by loser."""
    with ledger.transaction() as tx:
        return tx.table("SELECT loser_id, survivor_id, project_id FROM backlink_merges ORDER BY loser_id", _MERGES)


def facts_moved(ledger: Ledger, *, now: datetime) -> None:
    """Note that the facts of all merged edges lie with their survivors."""
    ledger.run(
        lambda tx: tx.execute(
            "UPDATE backlink_merges SET facts_moved_at = %(now)s WHERE facts_moved_at IS NULL", {"now": now}
        )
    )


class _Run:
    """One run of the migration; everything that matters is in the ledger."""

    def __init__(
        self,
        ledger: Ledger,
        actor: str,
        clock: Callable[[], datetime],
        progress: Progress,
        batch: int,
        edge_budget: int,
    ) -> None:
        self._ledger, self._rules = ledger, ledger.rules
        self._actor, self._clock, self._progress = actor, clock, progress
        self._batch, self._edges = batch, edge_budget
        self._from = ledger.rules.version

    def forget_plan(self) -> None:
        def work(tx: Transaction) -> None:
            state = _state(tx, lock=True)
            if state is not None and state.phase == "planning":
                tx.execute("DELETE FROM url_identity_changes WHERE to_version = %(v)s", {"v": state.target})
                tx.execute(
                    "UPDATE url_identity_state SET phase = 'steady', target_version = NULL, cursor_id = 0, ceiling_id = 0"
                )

        self._ledger.run(work)

    def begin(self) -> None:
        """Open the planning, unless it is open or done."""

        def work(tx: Transaction) -> None:
            version = _version(tx, self._rules, lock=True)
            state = _state(tx, lock=True)
            if state is None:
                return
            self._from = state.from_version or version
            if state.phase == "planning" and state.target != self._rules.version:
                raise IdentityVersionMismatch(
                    f"a migration to version {state.target} was begun, this code's rules are version "
                    f"{self._rules.version}: finish it with that code, or run again with --restart"
                )
            if state.phase == "steady" and version < self._rules.version:
                tx.execute(
                    "UPDATE url_identity_state SET phase = 'planning', target_version = %(target)s, cursor_id = 0, "
                    "ceiling_id = 0, unchanged = 0, started_at = %(now)s, switched_at = NULL, finished_at = NULL",
                    {"target": self._rules.version, "now": self._clock()},
                )

        self._ledger.run(work)

    # -- planning and the switch ---------------------------------------------------------------------------------------

    def plan(self) -> bool:
        """Plan up to a border that no writer can be behind of, then try the switch. False: the version is switched.

        Ids are handed out before they are committed, so the border is taken while no writer is under way.
        """
        state = self._ledger.run(lambda tx: _state(tx))
        if state is None or state.phase != "planning":
            return False

        def border(tx: Transaction) -> int:
            _state(tx, lock=True)
            return _highest(tx)

        ceiling = self._ledger.run(border)
        while state.cursor < ceiling:
            cursor = self._ledger.run(lambda tx: self._plan_batch(tx, ceiling))
            state = state.at(cursor)
            self._progress("planning", cursor, ceiling)
        return not self._ledger.run(self._switch)

    def _plan_batch(self, tx: Transaction, ceiling: int) -> int:
        # Only this run moves the cursor: no lock, so that writers never wait for a batch of planning.
        state = _state(tx)
        assert state is not None
        read, changes = _changes(tx, self._rules, state.version, state.cursor, ceiling, self._batch)
        cursor = read["id"][-1].as_py() if read.num_rows == self._batch else ceiling
        if changes.num_rows:
            tx.stage("stage_changes", changes, key=["url_id"], types=_TYPES)
            tx.execute(query("identities/plan"), {"version": self._rules.version})
        tx.execute("UPDATE url_identity_state SET cursor_id = %(cursor)s", {"cursor": cursor})
        return cursor

    def _switch(self, tx: Transaction) -> bool:
        """The switch, when what is left to plan fits into one transaction."""
        state = _state(tx, lock=True)
        assert state is not None
        highest = _highest(tx)
        if highest > state.cursor:
            left = tx.row("SELECT COUNT(*) FROM urls WHERE id > %(cursor)s", {"cursor": state.cursor})
            if left is not None and left[0] > self._batch:
                return False
            self._plan_batch(tx, highest)
        now = self._clock()
        self._retarget(tx, now)
        tx.execute(
            "UPDATE url_identity_state SET version = target_version, from_version = %(version)s, phase = 'rewriting', "
            "cursor_id = 0, ceiling_id = %(highest)s, switched_at = %(now)s",
            {"version": state.version, "highest": highest, "now": now},
        )
        self._audit(tx, "identity_version.switched", {"from": state.version, "to": self._rules.version})
        return True

    def _retarget(self, tx: Transaction, now: datetime) -> None:
        """Target rules under the new rules: URL, host and key. A rule whose URL is refused stays as it is written."""
        rules = tx.rows(query("identities/targets"))
        urls = [url or f"https://{host}/" for _, _, _, host, url in rules]
        found = self._rules.identify(urls).to_pylist()
        rows: list[dict[str, Any]] = []
        for (rule, scope, below, host, url), new in zip(rules, found, strict=True):
            if new["identity"] is None or (new["identity"] == url if url is not None else new["host"] == host):
                continue
            names = {"domain": new["site"], "subdomain": new["host"]}.get(scope, new["identity"])
            rows.append(
                {
                    "id": bytes(rule), "url": new["identity"], "target_key": keys.target_key(scope, names, bool(below)),
                    "host": new["host"], "registrable_domain": new["site"], "public_suffix": new["public_suffix"],
                }
            )  # fmt: skip
        for row in rows:  # few rules change; one by one, so that of two that become one the older stays
            tx.stage("stage_targets", pa.Table.from_pylist([row], schema=_TARGETS), key=["id"], types=_TYPES)
            for statement in script("identities/retarget"):
                tx.execute(statement, {"now": now})

    # -- rewriting -----------------------------------------------------------------------------------------------------

    def rewrite(self) -> None:
        while True:
            state = self._ledger.run(lambda tx: _state(tx))
            if state is None or state.phase != "rewriting":
                return
            self._from = state.from_version or self._from
            self._ledger.run(self._step)
            after = self._ledger.run(lambda tx: _state(tx))
            if after is not None:
                self._progress("rewriting", after.cursor, state.ceiling)

    def _step(self, tx: Transaction) -> None:
        """One transaction: what an earlier one left open, else the next batch, else the end."""
        state = _state(tx, lock=True)
        assert state is not None
        if state.phase != "rewriting":
            return
        params = {
            "version": state.version, "from_version": state.from_version, "now": self._clock(), "actor": self._actor,
            "budget": self._edges, "after": state.cursor, "upto": state.cursor, "profile": keys.FETCH_PROFILE,
        }  # fmt: skip
        if not self._finish_open(tx, params):
            return
        if state.cursor >= state.ceiling:
            tx.execute(
                "UPDATE url_identity_state SET phase = 'steady', from_version = NULL, target_version = NULL, "
                "finished_at = %(now)s",
                params,
            )
            self._audit(tx, "identity_version.rewritten", vars(_counted(tx, state.from_version or 0, state.version)))
            return
        row = tx.row(
            "SELECT MAX(id) FROM (SELECT id FROM urls WHERE id > %(after)s AND id <= %(ceiling)s ORDER BY id "
            "LIMIT %(batch)s) AS b",
            {"after": state.cursor, "ceiling": state.ceiling, "batch": self._batch},
        )
        upto = state.ceiling if row is None or row[0] is None else int(row[0])
        params["upto"] = upto
        planned = tx.table(query("identities/planned"), _PLANNED, params)
        if planned.num_rows:
            tx.stage("stage_planned", planned, key=["url_id"], index=["survivor_id"], types=_TYPES)
            for statement in script("identities/rewrite"):
                tx.execute(statement, params)
        unchanged = tx.execute(query("identities/rehash"), params)
        tx.execute(
            "UPDATE url_identity_state SET cursor_id = %(upto)s, unchanged = unchanged + %(unchanged)s",
            {"upto": upto, "unchanged": unchanged},
        )
        self._finish_open(tx, params)

    def _finish_open(self, tx: Transaction, params: dict[str, Any]) -> bool:
        """Edges of merged and refused URLs, as many as a transaction may take. True: none is left."""
        movers = tx.table(query("identities/movers"), _MOVERS, params)
        if movers.num_rows:
            self._merge(tx, movers, params)
        stopped = tx.table(query("identities/stopped"), pa.schema([("id", pa.uint64())]), params)
        if stopped.num_rows:
            tx.stage("stage_stopped", stopped, key=["id"])
            for statement in script("identities/stop"):
                tx.execute(statement, params)
        if max(movers.num_rows, stopped.num_rows) >= self._edges:
            return False
        for name in ("identities/close_merged", "identities/close_refused"):
            for statement in script(name):
                tx.execute(statement, params)
        return True

    def _merge(self, tx: Transaction, movers: pa.Table, params: dict[str, Any]) -> None:
        places = movers.group_by(["project_id", "source_url_id", "target_url_id"]).aggregate([])
        tx.stage("stage_places", places, key=places.column_names)
        tx.stage("stage_movers", movers, key=["id"])
        # Whoever stands there already is one of them.
        tx.execute(
            "INSERT IGNORE INTO stage_movers SELECT b.id, p.project_id, p.source_url_id, p.target_url_id FROM stage_places AS p "
            "JOIN backlinks AS b ON b.project_id = p.project_id AND b.source_url_id = p.source_url_id "
            "AND b.target_url_id = p.target_url_id"
        )
        tx.rows(
            "SELECT COUNT(*) FROM (SELECT b.id FROM stage_movers AS m JOIN backlinks AS b ON b.id = m.id FOR UPDATE OF b) AS l"
        )
        tx.derive("stage_merge", query("identities/merge_groups"), key=["id"])
        for statement in script("identities/merge"):
            tx.execute(statement, params)

    # -- the end -------------------------------------------------------------------------------------------------------

    def outcome(self) -> Outcome:
        with self._ledger.transaction() as tx:
            return _counted(tx, self._from, self._rules.version, examples=True)

    def _audit(self, tx: Transaction, action: str, detail: dict[str, Any]) -> None:
        tx.execute(
            "INSERT INTO audit_log (at, actor, action, subject, detail) "
            "VALUES (%(now)s, %(actor)s, %(action)s, 'url identities', %(detail)s)",
            {"now": self._clock(), "actor": self._actor, "action": action, "detail": json.dumps(detail)},
        )


@dataclass(frozen=True)
class _State:
    version: int
    from_version: int | None
    target: int | None
    phase: str
    cursor: int
    ceiling: int

    def at(self, cursor: int) -> _State:
        return _State(self.version, self.from_version, self.target, self.phase, cursor, self.ceiling)


def _state(tx: Transaction, *, lock: bool = False) -> _State | None:
    row = tx.row(query("identities/state") + (" FOR UPDATE" if lock else ""))
    return None if row is None else _State(*row)


def _version(tx: Transaction, rules: Normalization, *, lock: bool = False) -> int:
    """The ledger's version; that of the rules when it holds nothing yet."""
    state = _state(tx, lock=lock)
    if state is None:
        return rules.version
    if state.version > rules.version:
        raise IdentityVersionMismatch(
            f"the ledger's URLs have identities of version {state.version}, this code knows version {rules.version}: "
            "update the code"
        )
    return state.version


def _highest(tx: Transaction) -> int:
    row = tx.row("SELECT COALESCE(MAX(id), 0) FROM urls")
    return 0 if row is None else int(row[0])


def _changes(
    tx: Transaction, rules: Normalization, version: int, after: int, ceiling: int, limit: int
) -> tuple[pa.Table, pa.Table]:
    """A batch of URLs, and those of them that are another one, or none, under the rules."""
    read = tx.table(query("identities/read"), _READ, {"after": after, "ceiling": ceiling, "limit": limit})
    identities = frame_of(rules.identify(read["url"].to_pylist()))
    both = frame_of(read).hstack(identities.select("identity", "url_hash", "host", "site", "public_suffix", "reason"))
    changed = both.filter(
        pl.col("identity").is_null() | (pl.col("identity") != pl.col("url")) | (pl.col("version") != version)
    )
    table = changed.select(
        url_id="id", from_version="version", old_url="url", new_url="identity", new_hash="url_hash", host="host",
        registrable_domain="site", public_suffix="public_suffix", reason="reason",
    ).to_arrow()  # fmt: skip
    return read, table.cast(_CHANGES)


def _counted(tx: Transaction, from_version: int, version: int, *, examples: bool = False) -> Outcome:
    counts = {
        verdict: int(count)
        for verdict, count in tx.rows(
            "SELECT verdict, COUNT(*) FROM url_identity_changes WHERE to_version = %(v)s GROUP BY verdict",
            {"v": version},
        )
    }
    state = tx.row("SELECT unchanged FROM url_identity_state WHERE id = 1")
    merged = tx.row("SELECT COUNT(*) FROM backlink_merges WHERE to_version = %(v)s", {"v": version})
    shown = tx.rows(query("identities/examples"), {"version": version, "limit": EXAMPLES}) if examples else []
    return Outcome(
        from_version, version, 0 if state is None else int(state[0]), counts.get("renamed", 0), counts.get("merged", 0),
        counts.get("refused", 0), 0 if merged is None else int(merged[0]), tuple(Example(*row) for row in shown),
    )  # fmt: skip


@contextmanager
def _only_one(ledger: Ledger) -> Iterator[None]:
    """One migration of a ledger at a time; the lock goes with its connection."""
    name = "identities:" + hashlib.sha256(ledger.settings.database.encode()).hexdigest()[:40]
    connection = ledger.connect()
    try:
        cursor = connection.cursor()
        cursor.execute("SELECT GET_LOCK(%(name)s, 0)", {"name": name})
        if cursor.fetchall()[0][0] != 1:
            raise TransientError("another migration of URL identities is running: wait for its end")
        yield
    finally:
        connection.close()


_READ = pa.schema([("id", pa.uint64()), ("url", pa.string()), ("version", pa.uint16())])
_CHANGES = pa.schema(
    [
        ("url_id", pa.uint64()),
        ("from_version", pa.uint16()),
        ("old_url", pa.string()),
        ("new_url", pa.string()),
        ("new_hash", pa.binary(32)),
        ("host", pa.string()),
        ("registrable_domain", pa.string()),
        ("public_suffix", pa.string()),
        ("reason", pa.string()),
    ]
)
_PLANNED = pa.schema(
    [
        ("url_id", pa.uint64()),
        ("new_url", pa.string()),
        ("new_hash", pa.binary(32)),
        ("host", pa.string()),
        ("registrable_domain", pa.string()),
        ("public_suffix", pa.string()),
        ("survivor_id", pa.uint64()),
    ]
)
_MERGES = pa.schema([("loser_id", pa.uint64()), ("survivor_id", pa.uint64()), ("project_id", pa.binary(16))])
_MOVERS = pa.schema(
    [
        ("id", pa.uint64()),
        ("project_id", pa.binary(16)),
        ("source_url_id", pa.uint64()),
        ("target_url_id", pa.uint64()),
    ]
)
_TARGETS = pa.schema(
    [
        ("id", pa.binary(16)),
        ("url", pa.string()),
        ("target_key", pa.binary(32)),
        ("host", pa.string()),
        ("registrable_domain", pa.string()),
        ("public_suffix", pa.string()),
    ]
)
_HOST = "VARCHAR(253) CHARACTER SET ascii COLLATE ascii_general_ci"
_TYPES = {"host": _HOST, "registrable_domain": _HOST, "public_suffix": _HOST, "reason": "VARCHAR(64)"}
