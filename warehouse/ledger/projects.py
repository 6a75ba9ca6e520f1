"""Projects, target rules, alert rules. Here: making, listing, pausing and deleting them. Not here: edges."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import pyarrow as pa

from transforms.errors import PermanentError
from transforms.schemas import TARGET_RULES
from warehouse.ledger import keys
from warehouse.ledger.edges import register_urls, urls_of
from warehouse.ledger.engine import Ledger, Transaction
from warehouse.ledger.sql import query, script
from warehouse.ledger.tables import ALERT_RULES

WEEK = timedelta(days=7)
SCOPES = ("domain", "subdomain", "url_prefix", "exact_url")
DELETE_BATCH = 2_000


@dataclass(frozen=True)
class Project:
    id: bytes
    tenant_id: bytes
    name: str
    recrawl_interval: timedelta
    is_strict: bool
    is_active: bool


@dataclass(frozen=True)
class TargetSpec:
    """A target rule to add. `url` is a URL identity; for `domain` and `subdomain` any URL of the host will do.

    A CSV's or person's spelling becomes one through `transforms.targets` / `transforms.urls.identify`.
    """

    scope: str
    url: str
    include_subdomains: bool = True
    is_primary: bool = False


def ensure_project(
    ledger: Ledger,
    *,
    tenant_id: bytes,
    name: str,
    now: datetime,
    recrawl_interval: timedelta | None = None,
    is_strict: bool | None = None,
) -> Project:
    """The tenant's project of that name, made when it is not there. `None` keeps what an existing one has.

    Raises `PermanentError` for an empty name, or an interval that is not between a minute and 7 days.
    """
    if not name.strip() or len(name) > 255:
        raise PermanentError(f"a project needs a name of 1 to 255 characters, got {name!r}")
    if recrawl_interval is not None and not timedelta(minutes=1) <= recrawl_interval <= WEEK:
        raise PermanentError(
            f"project {name!r}: the recrawl interval must be between 1 minute and 7 days, got {recrawl_interval}"
        )

    def work(tx: Transaction) -> Project:
        tx.execute(
            query("projects/ensure"),
            {
                "id": keys.uuid7(now),
                "tenant_id": tenant_id,
                "name": name,
                "interval": None if recrawl_interval is None else int(recrawl_interval.total_seconds()),
                "is_strict": is_strict,
                "now": now,
            },
        )
        found = _find(tx, tenant_id, name)
        assert found is not None
        return found

    return ledger.run(work)


def find_project(ledger: Ledger, *, tenant_id: bytes, name: str) -> Project | None:
    with ledger.transaction() as tx:
        return _find(tx, tenant_id, name)


def list_projects(ledger: Ledger, *, tenant_id: bytes | None = None) -> list[Project]:
    """All projects of a tenant (or of all), by name."""
    with ledger.transaction() as tx:
        return [_project(row) for row in tx.rows(query("projects/list"), {"tenant_id": tenant_id})]


def add_targets(ledger: Ledger, project_id: bytes, targets: Sequence[TargetSpec], *, now: datetime) -> list[bytes]:
    """Add target rules; a rule that is there already is kept (and made primary when asked). Ids in the order given.

    Raises `PermanentError` for an unknown scope, a URL that has no identity, or a project that does not exist.
    """
    for target in targets:
        if target.scope not in SCOPES:
            raise PermanentError(f"a target's scope is one of {', '.join(SCOPES)}, got {target.scope!r}")
    identities = ledger.rules.identify([target.url for target in targets])
    for target, reason in zip(targets, identities["reason"].to_pylist(), strict=True):
        if reason is not None:
            raise PermanentError(f"target {target.url!r} is not a URL that can be monitored ({reason})")
    urls = register_urls(ledger, urls_of(identities))
    rows: list[dict[str, object]] = []
    for target, identity in zip(targets, urls.to_pylist(), strict=True):
        names = identity["host"] if target.scope in ("domain", "subdomain") else identity["url"]
        if target.scope == "domain":
            names = identity["registrable_domain"]
        rows.append(
            {
                "position": len(rows),
                "id": keys.uuid7(now),
                "scope": target.scope,
                "url_id": identity["url_id"],
                "url": identity["url"],
                "target_key": keys.target_key(target.scope, names, target.include_subdomains),
                "include_subdomains": target.include_subdomains,
                "is_primary": target.is_primary,
            }
        )
    staged = pa.Table.from_pylist(rows, schema=_TARGETS)

    def work(tx: Transaction) -> list[bytes]:
        if tx.row("SELECT id FROM projects WHERE id = %(id)s FOR UPDATE", {"id": project_id}) is None:
            raise PermanentError(f"there is no project {project_id.hex()}")
        tx.stage("stage_targets", staged, key=["position"], index=["target_key"])
        params = {"project_id": project_id, "now": now}
        for statement in script("projects/add_targets"):
            tx.execute(statement, params)
        return [row[0] for row in tx.rows(query("projects/added_targets"), params)]

    return ledger.run(work)


_TARGETS = pa.schema(
    [
        ("position", pa.uint32()),
        ("id", pa.binary(16)),
        ("scope", pa.string()),
        ("url_id", pa.uint64()),
        ("url", pa.string()),
        ("target_key", pa.binary(32)),
        ("include_subdomains", pa.bool_()),
        ("is_primary", pa.bool_()),
    ]
)


def target_rules(ledger: Ledger, project_ids: Sequence[bytes] | None = None) -> pa.Table:
    """Active target rules (`TARGET_RULES`) of the projects, or of all active projects."""
    with ledger.transaction() as tx:
        return read_target_rules(tx, project_ids)


def read_target_rules(tx: Transaction, project_ids: Sequence[bytes] | None) -> pa.Table:
    params = {"project_ids": None if project_ids is None else json.dumps([each.hex() for each in project_ids])}
    return tx.table(query("projects/target_rules"), TARGET_RULES.schema, params)


def remove_target(ledger: Ledger, project_id: bytes, target_id: bytes, *, now: datetime) -> bool:
    """Retire a target rule. Edges that only this rule asked for are not checked any more. False: there was none."""

    def work(tx: Transaction) -> bool:
        params = {"project_id": project_id, "target_id": target_id, "now": now}
        removed = 0
        for statement in script("projects/remove_target"):
            removed = tx.execute(statement, params) or removed
        return removed > 0

    return ledger.run(work)


def set_active(ledger: Ledger, project_id: bytes, active: bool) -> None:
    """Pause or resume a project: a paused one is not checked. Edges are switched in bounded batches."""
    ledger.run(
        lambda tx: tx.execute(
            "UPDATE projects SET is_active = %(active)s WHERE id = %(id)s", {"id": project_id, "active": active}
        )
    )
    params = {"project_id": project_id, "active": active, "batch": DELETE_BATCH}
    while ledger.run(lambda tx: tx.execute(query("projects/switch_edges"), params)):
        pass


def add_alert_rule(
    ledger: Ledger,
    project_id: bytes,
    *,
    name: str,
    event_types: Sequence[str],
    channels: Sequence[dict[str, str]],
    now: datetime,
    filters: dict[str, object] | None = None,
    cooldown: timedelta = timedelta(hours=1),
) -> bytes:
    """Add an alert rule (or change the one of that name). Channels are `{"channel": "email", "destination": ...}`; a
    destination is an address or the name of a secret, never a secret. Returns `alert_rules.id`."""
    for each in channels:
        if each.get("channel") not in ("email", "slack", "webhook") or not each.get("destination"):
            raise PermanentError(
                f"alert rule {name!r}: a channel needs channel (email, slack or webhook) and destination, got {each!r}"
            )

    def work(tx: Transaction) -> bytes:
        if tx.row("SELECT id FROM projects WHERE id = %(id)s FOR UPDATE", {"id": project_id}) is None:
            raise PermanentError(f"there is no project {project_id.hex()}")
        params = {
            "project_id": project_id,
            "name": name,
            "event_types": json.dumps(list(event_types)),
            "filters": json.dumps(filters or {}),
            "channels": json.dumps(list(channels)),
            "cooldown": int(cooldown.total_seconds()),
        }
        known = tx.row(query("projects/find_alert_rule"), params)
        rule_id = keys.uuid7(now) if known is None else bytes(known[0])
        tx.execute(query("projects/put_alert_rule"), {**params, "id": rule_id})
        return rule_id

    return ledger.run(work)


def alert_rules(ledger: Ledger, project_ids: Sequence[bytes] | None = None) -> pa.Table:
    """Active alert rules (`ALERT_RULES`) of the projects, or of all active projects."""
    with ledger.transaction() as tx:
        return tx.table(
            query("projects/alert_rules"),
            ALERT_RULES.schema,
            {"project_ids": None if project_ids is None else json.dumps([each.hex() for each in project_ids])},
        )


def delete_project(ledger: Ledger, project_id: bytes, *, actor: str, now: datetime) -> bool:
    """Delete a project and all that is its own: rules, edges, observations, alerts, runs, imports. False: there was
    none.

    Schedules stop first; then rows go in bounded batches, each its own transaction, so that a killed deletion goes on
    where it stopped. Shared rows (URLs, fetch jobs, snapshots) stay. Pending outbox events of the project stay, and
    one that says that it is gone is added. The audit row is written with the last step.
    """
    found = ledger.run(lambda tx: tx.row("SELECT tenant_id, name FROM projects WHERE id = %(id)s", {"id": project_id}))
    if found is None:
        return False
    tenant_id, name = found
    set_active(ledger, project_id, False)
    params = {"project_id": project_id, "batch": DELETE_BATCH}
    for statement in script("projects/delete_batches"):
        while ledger.run(lambda tx, statement=statement: tx.execute(statement, params)):  # type: ignore[misc]
            pass

    def last(tx: Transaction) -> None:
        if tx.execute("DELETE FROM projects WHERE id = %(project_id)s", params):
            event = hashlib.sha256(b"project.deleted:" + project_id).digest()
            tx.execute(
                query("projects/deleted"),
                {
                    "id": keys.uuid7_of(now, event),
                    "event_key": event,
                    "project_id": project_id,
                    "tenant_id": tenant_id,
                    "payload": json.dumps(
                        {"event": "project.deleted", "project_id": project_id.hex(), "tenant_id": tenant_id.hex()}
                    ),
                    "actor": actor,
                    "subject": f"project {name}"[:512],
                    "now": now,
                },
            )
            tx.execute(
                query("projects/audit"),
                {
                    "actor": actor,
                    "tenant_id": tenant_id,
                    "subject": f"project {name}"[:512],
                    "now": now,
                    "detail": json.dumps({"project_id": project_id.hex()}),
                },
            )

    ledger.run(last)
    return True


def _find(tx: Transaction, tenant_id: bytes, name: str) -> Project | None:
    row = tx.row(query("projects/find"), {"tenant_id": tenant_id, "name": name})
    return None if row is None else _project(row)


def _project(row: tuple) -> Project:
    return Project(bytes(row[0]), bytes(row[1]), row[2], timedelta(seconds=row[3]), bool(row[4]), bool(row[5]))
