"""Alert events, deliveries and broker rows of a batch of states. Here: `raise_alerts`. Not here: writing.

Deterministic: the same states, observations and rules give the same rows, whatever was written before, so a rerun
repeats keys that the ledger already holds and changes nothing.
- Key of an event: SHA-256(rule id hex `:` backlink id `:` event type `:` observation id); of its broker row,
  SHA-256(`alert:` key hex).
- Cooldown: a *property* event that follows another standing one of the same rule, edge and type within the rule's
  cooldown is recorded but delivered to nobody; so a page that flaps is quiet until it has been steady for that long.
  New, lost and recovered are always delivered: holding one back would leave a person believing the opposite of what
  is so.
- Late: an event observed before `deliver_since` is recorded but delivered to nobody (a backfill is not news).
- Retraction: a standing alert of an observation among the states whose event the (corrected) history no longer holds.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

import polars as pl
import pyarrow as pa

from transforms.alerts.events import happened
from transforms.alerts.payload import COMPARED_COLUMNS, with_payloads
from transforms.alerts.rules import parse_rules, passing
from transforms.arrays import frame_of
from transforms.matching.digests import sha256_of
from transforms.schemas import EDGE_STATES, LINK_OBSERVATIONS
from transforms.schemas.dataset import HASH, KEY, STR, TIME, U64, Dataset, column

ALERT_TOPIC = "alert-events"
"""Broker topic; partitioned by project, so that one project's alerts stay in order."""

NEVER_COOLED = ("backlink.new", "backlink.lost", "backlink.recovered")

_EVENTS = pa.schema([
    pa.field("deduplication_key", HASH, nullable=False),
    pa.field("project_id", KEY, nullable=False),
    pa.field("alert_rule_id", KEY),
    pa.field("backlink_id", U64),
    pa.field("observation_id", U64),
    pa.field("event_type", STR, nullable=False),
    pa.field("payload", STR, nullable=False),
    pa.field("occurred_at", TIME, nullable=False),
])  # fmt: skip
_DELIVERIES = pa.schema([
    pa.field("deduplication_key", HASH, nullable=False),
    pa.field("channel", STR, nullable=False),
    pa.field("destination", STR, nullable=False),
])  # fmt: skip
ALERT_OUTBOX = Dataset(
    "alert_outbox",
    "Broker rows of alert events (the ledger writes `backlink-state-events` itself, from the states).",
    pa.schema([
        column("event_key", HASH, "SHA-256('alert:' deduplication key hex)"),
        column("topic", STR, "alert-events"),
        column("partition_key", STR, "project id, hex"),
        column("payload", STR, "JSON object: the alert's payload"),
        column("occurred_at", TIME, "when it happened"),
    ]),
)  # fmt: skip


@dataclass(frozen=True)
class Raised:
    events: pa.Table
    """As `warehouse.ledger.tables.ALERT_EVENTS`."""
    deliveries: pa.Table
    """As `warehouse.ledger.tables.ALERT_DELIVERIES`; none for events that are cooled down or late."""
    outbox: pa.Table
    """`ALERT_OUTBOX`, one row per event that has a delivery or whose rule has no channel."""
    problems: list[str] = field(default_factory=list)
    """One sentence for each alert rule that could not be understood."""


def raise_alerts(
    *,
    states: pa.Table,
    observations: pa.Table,
    rules: pa.Table,
    previous: pa.Table | None = None,
    recent: pa.Table | None = None,
    deliver_since: datetime | None = None,
) -> Raised:
    """What the states of a batch of edges tell whom.

    `states`: `EDGE_STATES`; `observations`: the `LINK_OBSERVATIONS` they stand after; `rules`: active rules with
    `project_id`, `alert_rule_id`, `name`, `event_types`, `filters`, `channels`, `cooldown_seconds`
    (`warehouse.ledger.tables.ALERT_RULES`). `previous`: older `LINK_OBSERVATIONS` of these edges, from which `before`
    is taken (the newest found one before the event; those in `observations` serve too); `recent`: standing alerts of
    these edges (`RECENT_ALERTS`), for cooldown. Raises `ValueError` when a table lacks a column.
    """
    parsed = parse_rules(rules)
    observed = frame_of(LINK_OBSERVATIONS.conform(observations))
    told = happened(frame_of(EDGE_STATES.conform(states)), observed)
    standing = _standing(recent)
    alerts = passing(told.join(parsed.wanted, on=["project_id", "event_type"], how="inner", maintain_order="left"))
    older = observed if previous is None else pl.concat([frame_of(LINK_OBSERVATIONS.conform(previous)), observed])
    alerts = _with_before(alerts, older)
    alerts = alerts.with_columns(deduplication_key=_keys(alerts))
    alerts = with_payloads(alerts)
    quiet = _cooled(alerts, standing)
    if deliver_since is not None:
        quiet = quiet | (alerts["observed_at"] < deliver_since)
    loud = alerts.filter(~quiet)
    events = alerts.select(
        "deduplication_key", "project_id", "alert_rule_id", "backlink_id", "observation_id", "event_type", "payload",
        occurred_at="observed_at",
    ).sort("occurred_at", "deduplication_key")  # fmt: skip
    deliveries = loud.select("deduplication_key", "alert_rule_id").join(
        parsed.channels, on="alert_rule_id", how="inner", maintain_order="left"
    )
    outbox = loud.select(
        event_key=sha256_of(loud.select("alert:" + pl.col("deduplication_key").bin.encode("hex")).to_series()),
        topic=pl.lit(ALERT_TOPIC),
        partition_key=pl.col("project_id").bin.encode("hex"),
        payload="payload",
        occurred_at="observed_at",
    ).sort("occurred_at", "event_key")
    return Raised(
        events.to_arrow().cast(_EVENTS),
        deliveries.select(_DELIVERIES.names).sort(_DELIVERIES.names).to_arrow().cast(_DELIVERIES),
        ALERT_OUTBOX.conform(outbox.to_arrow()),
        parsed.problems,
    )


def _keys(alerts: pl.DataFrame) -> pl.Series:
    return sha256_of(
        alerts.select(
            pl.concat_str(
                pl.col("alert_rule_id").bin.encode("hex"),
                pl.lit(":"),
                "backlink_id",
                pl.lit(":"),
                "event_type",
                pl.lit(":"),
                "observation_id",
            )
        ).to_series()
    )


def _with_before(alerts: pl.DataFrame, older: pl.DataFrame) -> pl.DataFrame:
    """The newest found evidence of the same edge before each event, as `b_…` (null when none is known)."""
    names = ["observation_id", *COMPARED_COLUMNS]
    found = (
        older.filter(pl.col("evidence") == "found")
        .select("project_id", "backlink_id", "observed_at", *(pl.col(name).alias(f"b_{name}") for name in names))
        .unique(["project_id", "backlink_id", "b_observation_id"], keep="last")
        .sort("observed_at")
    )
    return (
        alerts.with_row_index("_row")
        .sort("observed_at")
        .join_asof(
            found,
            on="observed_at",
            by=["project_id", "backlink_id"],
            strategy="backward",
            allow_exact_matches=False,
            check_sortedness=False,
        )
        .sort("_row")
        .drop("_row")
    )


def _cooled(alerts: pl.DataFrame, standing: pl.DataFrame) -> pl.Series:
    """Whether each alert follows another standing one of its rule, edge and type within the cooldown."""
    key = ["alert_rule_id", "backlink_id", "event_type"]
    now = alerts.select(*key, "observation_id", "observed_at", "cooldown_s").with_row_index("_row")
    # What this batch decides anew about an observation replaces what stood of it.
    others = standing.join(alerts.select("observation_id").unique(), on="observation_id", how="anti")
    known = pl.concat(
        [
            others.select(*key, "observation_id", at="occurred_at"),
            now.select(*key, "observation_id", at="observed_at"),
        ]
    ).unique()
    near = (
        now.filter(~pl.col("event_type").is_in(NEVER_COOLED))
        .join(known, on=key, suffix="_other")
        .filter(
            (pl.col("at") < pl.col("observed_at"))
            & ((pl.col("observed_at") - pl.col("at")).dt.total_microseconds() < pl.col("cooldown_s") * 1_000_000)
        )["_row"]
    )
    return now.select(pl.col("_row").is_in(near.implode())).to_series()


def _standing(recent: pa.Table | None) -> pl.DataFrame:
    if recent is not None:
        return frame_of(recent).select("alert_rule_id", "backlink_id", "event_type", "observation_id", "occurred_at")
    return pl.DataFrame(
        schema={
            "alert_rule_id": pl.Binary,
            "backlink_id": pl.UInt64,
            "event_type": pl.String,
            "observation_id": pl.UInt64,
            "occurred_at": pl.Datetime("us", "UTC"),
        }
    )
