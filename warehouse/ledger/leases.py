"""Who may work on what. Here: the lease of a shard with its fence, leases of queue rows, recovery of expired ones. Not
here: what is done under them.

A shard lease has three parts. `leased_until` is a promise of time, renewed with every commit. The fence is a number
that rises with every new owner: a commit with an old one is refused, whatever the clocks say. And the owner holds a
named lock on a connection of its own, which the server drops when the process dies: so a killed owner's shard can be
taken over at once, not after the lease has run out. A server that restarts drops the locks of the living too: they take
them again (`hold_again`), and for `RESTART_GRACE_S` a lock that is free says nothing.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from typing import Any

import mysql.connector
import pyarrow as pa

from warehouse.ledger.engine import Ledger, Transaction
from warehouse.ledger.errors import LeaseHeld, StaleFence
from warehouse.ledger.sql import query

MAX_ATTEMPTS = 5
"""A queue row whose lease expired this many times has failed for good."""

RECOVERY_BATCH = 500

RESTART_GRACE_S = 20.0
"""So long after a start of the server its earlier owners may be alive although their locks are gone."""
_CLOCK_SLACK = timedelta(seconds=3)
"""The server tells its start in whole seconds."""


@dataclass
class Lease:
    """A shard that is owned. `fence` goes with every commit; only `holder` changes (`hold_again`)."""

    name: str
    owner: str
    fence: int
    ttl_s: float
    holder: Any = field(default=None, repr=False, compare=False)
    """The connection that holds the named lock; None when the lock could not be had."""
    is_orphan: bool = field(default=False, compare=False)
    """The owner before did not give it back: what it did in its last seconds is not known."""


def acquire_shard(ledger: Ledger, name: str, *, owner: str, ttl_s: float, now: datetime) -> Lease:
    """Own a shard for `ttl_s` seconds from `now`. Each success has a higher fence than any before.

    Granted when nobody owns it, when the owner's lease has run out, or when the owner's process is gone. Raises
    `LeaseHeld` otherwise, also for another lease of the same owner: a lease belongs to one task, not to a process.
    """
    holder = _hold(ledger, name)
    params = {"name": name, "owner": owner, "until": now + timedelta(seconds=ttl_s), "now": now}

    def work(tx: Transaction) -> tuple[int, bool]:
        tx.execute(query("leases/ensure"), params)
        row = tx.row(query("leases/read"), params)
        assert row is not None
        held_by, fence, until, seen = row
        started, uptime_s = _server_start(tx)
        restarted = seen is None or abs(started - seen) > _CLOCK_SLACK
        if held_by is not None and until > now and restarted and uptime_s < RESTART_GRACE_S:
            raise LeaseHeld(
                f"{name} was owned by {held_by} when MySQL went away, and it may be at work: run it again in "
                f"{RESTART_GRACE_S - uptime_s:.0f} s"
            )
        # Without the named lock somebody is alive: the owner, or one that is just giving it back. Taking it from the
        # latter would leave us without the lock, and so look dead to the next.
        if holder is None and (held_by is None or until > now):
            who = "a run that is just ending" if held_by is None else f"{held_by} until {until:%Y-%m-%d %H:%M:%S} UTC"
            raise LeaseHeld(f"{name} is owned by {who}: run it again then")
        tx.execute(query("leases/take"), {**params, "server_started_at": started})
        return int(fence) + 1, held_by is not None

    try:
        fence, is_orphan = ledger.run(work)
    except BaseException:
        _let_go(holder)
        raise
    return Lease(name, owner, fence, ttl_s, holder, is_orphan)


def extend(ledger: Ledger, lease: Lease, *, now: datetime) -> None:
    """Own it for another `ttl_s` from `now`. Raises `StaleFence` when somebody else took it meanwhile."""
    ledger.run(lambda tx: check_fence(tx, lease, now=now))


def hold_again(ledger: Ledger, lease: Lease) -> bool:
    """The owner's named lock, taken again where the server or its connection has gone since. False: it is not to be had,
    somebody else may own the shard now. Call it more often than every `RESTART_GRACE_S`."""
    if lease.holder is not None:
        try:
            lease.holder.ping(reconnect=False)
        except mysql.connector.Error:
            _let_go(lease.holder)
            lease.holder = None
        else:
            return True
    holder = _hold(ledger, lease.name)
    if holder is None:
        return False

    def work(tx: Transaction) -> None:
        check_fence(tx, lease)
        tx.execute(query("leases/held_again"), {"name": lease.name, "server_started_at": _server_start(tx)[0]})

    try:
        ledger.run(work)
    except StaleFence:
        _let_go(holder)
        return False
    except BaseException:
        _let_go(holder)
        raise
    lease.holder = holder
    return True


def release(ledger: Ledger, lease: Lease) -> bool:
    """Give the shard back. False: somebody else owns it already, and nothing was changed. Safe to call twice."""
    try:
        return bool(
            ledger.run(lambda tx: tx.execute(query("leases/release"), {"name": lease.name, "fence": lease.fence}))
        )
    finally:
        _let_go(lease.holder)


def check_fence(tx: Transaction, lease: Lease, *, now: datetime | None = None) -> None:
    """Refuse the transaction unless the lease is still the newest; hold off any new owner until it ends.

    With `now` the lease is extended as well. Raises `StaleFence`.
    """
    row = tx.row("SELECT owner, fence FROM shard_leases WHERE name = %(name)s FOR UPDATE", {"name": lease.name})
    if row is None or int(row[1]) != lease.fence or row[0] is None:
        who = "nobody" if row is None or row[0] is None else row[0]
        raise StaleFence(
            f"{lease.name} is no longer owned by {lease.owner} (fence {lease.fence}, now {row and row[1]} of {who}): "
            "its results were not written"
        )
    if now is not None:
        tx.execute(query("leases/extend"), {"name": lease.name, "until": now + timedelta(seconds=lease.ttl_s)})


# -- rows of queues ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Queue:
    """How a queue's table spells things."""

    waiting: str
    order: str
    code: str


_JOBS = _Queue("queued", "priority DESC, available_at, id", "q.failure_code = 'lease_expired'")
_MESSAGES = _Queue("pending", "available_at, id", "q.last_error_code = 'lease_expired'")
QUEUES = {
    "page_fetch_jobs": _JOBS,
    "target_validation_jobs": _JOBS,
    "page_parse_results": _JOBS,
    "crawl_pages": _Queue(_JOBS.waiting, _JOBS.order, "q.completed_at = %(now)s"),
    "alert_deliveries": _MESSAGES,
    "transactional_outbox": _MESSAGES,
}


def claim_queue(
    ledger: Ledger, queue: str, *, owner: str, ttl_s: float, now: datetime, limit: int
) -> tuple[str, list[Any]]:
    """Lease up to `limit` rows of a queue (`QUEUES`) that may be worked on at `now`: highest priority, then longest
    waiting.

    Rows that somebody else is looking at are skipped, not waited for. Returns the lease's token (kept in `lease_owner`,
    different for every claim, so a stale worker cannot finish a row that was given to another) and the ids.
    """
    pick, lease = _queue("queue_pick", queue), _queue("queue_lease", queue)
    token = f"{owner[:100]}#{secrets.token_hex(8)}"

    def work(tx: Transaction) -> list[Any]:
        ids = [row[0] for row in tx.rows(pick, {"now": now, "limit": limit})]
        _stage_ids(tx, ids)
        tx.execute(lease, {"token": token, "until": now + timedelta(seconds=ttl_s)})
        return ids

    return token, ledger.run(work)


def extend_queue(ledger: Ledger, queue: str, token: str, ids: Sequence[Any], *, ttl_s: float, now: datetime) -> int:
    """Keep rows for longer. Returns how many of them are still held under the token."""
    extend_sql, held = _queue("queue_extend", queue), _queue("queue_held", queue)

    def work(tx: Transaction) -> int:
        _stage_ids(tx, ids)
        params = {"token": token, "until": now + timedelta(seconds=ttl_s)}
        tx.execute(extend_sql, params)
        row = tx.row(held, params)
        return int(row[0]) if row else 0

    return ledger.run(work)


def return_queue(ledger: Ledger, queue: str, token: str, ids: Sequence[Any], *, available_at: datetime) -> int:
    """Give rows back, to be worked on not before `available_at` (a stop, or a failure that may pass). Returns how many
    were still held."""
    sql = _queue("queue_return", queue)

    def work(tx: Transaction) -> int:
        _stage_ids(tx, ids)
        return tx.execute(sql, {"token": token, "available_at": available_at})

    return ledger.run(work)


def recover_expired(
    ledger: Ledger, *, now: datetime, batch: int = RECOVERY_BATCH, max_attempts: int = MAX_ATTEMPTS
) -> dict[str, tuple[int, int]]:
    """Put rows whose lease ran out back into their queues, a minute from now; those that used up their attempts fail.

    Works through each queue in batches of `batch` ids, each its own transaction. Returns per queue (requeued, failed).
    """
    params = {"now": now, "batch": batch, "max_attempts": max_attempts, "again": now + timedelta(minutes=1)}
    answer: dict[str, tuple[int, int]] = {}
    for queue in QUEUES:
        requeued = failed = 0
        while (counts := ledger.run(partial(_recover, queue=queue, params=params))) is not None:
            requeued, failed = requeued + counts[0], failed + counts[1]
        answer[queue] = (requeued, failed)
    return answer


def _recover(tx: Transaction, queue: str, params: dict[str, Any]) -> tuple[int, int] | None:
    """One batch of one queue: (requeued, failed), or None when nothing had expired."""
    ids = [row[0] for row in tx.rows(_queue("queue_expired", queue), params)]
    if not ids:
        return None
    _stage_ids(tx, ids)
    failed = tx.execute(_queue("queue_give_up", queue), params)
    return tx.execute(_queue("queue_requeue", queue), params), failed


def _queue(name: str, queue: str) -> str:
    """A queue's statement: only names of `QUEUES` are put into the text."""
    if queue not in QUEUES:
        raise ValueError(f"not a queue of the ledger: {queue!r} (one of {', '.join(QUEUES)})")
    spelled = QUEUES[queue]
    return (
        query(f"leases/{name}")
        .replace("{queue}", queue)
        .replace("{waiting}", spelled.waiting)
        .replace("{order}", spelled.order)
        .replace("{code}", spelled.code)
    )


def _stage_ids(tx: Transaction, ids: Sequence[Any]) -> None:
    kind = pa.binary(16) if ids and isinstance(ids[0], (bytes, bytearray)) else pa.uint64()
    tx.stage("stage_ids", pa.table({"id": pa.array(ids, kind)}), key=["id"])


def _hold(ledger: Ledger, name: str) -> Any:
    """A connection of our own that holds the shard's named lock, or None when a living owner holds it."""
    connection = ledger.connect()
    try:
        cursor = connection.cursor()
        digest = hashlib.sha256(f"{ledger.settings.database}:{name}".encode()).hexdigest()[:48]
        cursor.execute("SET SESSION wait_timeout = 604800")
        cursor.execute("SELECT GET_LOCK(%(name)s, 0)", {"name": f"shard:{digest}"})
        got = cursor.fetchall()[0][0]
        connection.rollback()
        cursor.close()
    except BaseException:
        _let_go(connection)
        raise
    if got == 1:
        return connection
    _let_go(connection)
    return None


def _server_start(tx: Transaction) -> tuple[datetime, float]:
    """When the server started (UTC, to a second or two), and seconds since."""
    status = tx.row("SHOW GLOBAL STATUS LIKE 'Uptime'")
    now = tx.row("SELECT UTC_TIMESTAMP()")
    assert status is not None
    assert now is not None
    uptime_s = float(status[1])
    return now[0] - timedelta(seconds=uptime_s), uptime_s


def _let_go(connection: Any) -> None:
    if connection is not None:
        try:
            connection.close()
        except mysql.connector.Error:
            return
