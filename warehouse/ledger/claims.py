"""What a window x shard has to check. Here: claiming due sources, fairly and within quotas, and reading back everything
that the window has claimed. Not here: fetching, and targets (`warehouse.ledger.targets`).

A source is claimed once a window, whoever asks: its row in `url_revalidation_state` is locked (`SKIP LOCKED`), its
fetch job is keyed by source, profile and window, and each project that wants it becomes a consumer (`crawl_pages`) of
the job. All active edges of a claimed source come along. A claim moves their next check past the window, so that the
next window does not take what this one still works on; if the work is lost, they fall due again an hour later.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

import polars as pl
import pyarrow as pa

from transforms.arrays import frame_of
from transforms.fairness import charge
from transforms.schemas import DUE_SOURCES, EXPECTED_EDGES
from transforms.windows import Window, buckets_of_shard
from warehouse.ledger.engine import Ledger, Transaction
from warehouse.ledger.identities import guard
from warehouse.ledger.keys import FETCH_PROFILE
from warehouse.ledger.projects import read_target_rules
from warehouse.ledger.sql import query, script

RESERVATION = timedelta(hours=1)
DEADLINE = timedelta(days=7)
_REPLANS = 5


@dataclass(frozen=True)
class ClaimLimits:
    """`max_sources` new claims at most (None: whatever is due), shared out between tenants by their `scheduler_weight`;
    `batch` sources a transaction."""

    max_sources: int | None = None
    batch: int = 4_000


@dataclass(frozen=True)
class Claim:
    """Everything that the window x shard has claimed so far, this call included."""

    due: pa.Table
    """`DUE_SOURCES`, by source_url_id."""
    expected: pa.Table
    """`EXPECTED_EDGES`, by source_url_id, backlink_id."""
    rules: pa.Table
    """`TARGET_RULES` of the projects in `expected`."""
    counts: dict[str, int]
    """new: sources claimed by this call · before: claimed earlier · deferred: checks (tenant x source) that fell due
    but exceed a quota or `max_sources`: coverage debt · skipped: sources that another claim was holding."""


class _QuotaMoved(Exception):
    """Another shard used up a tenant's quota while we planned."""


def claim_due(
    ledger: Ledger,
    *,
    window: Window,
    shard: int,
    shards: int,
    now: datetime,
    owner: str,
    limits: ClaimLimits | None = None,
) -> Claim:
    """Claim what falls due before the window's end on the shard's hosts, and return all that the window has claimed.

    An edge that waits for its confirmation is due only from `confirm_not_before` on. Claiming again adds what fell due
    since. Two claims of the same window x shard at once share the work; neither waits for the other. `owner` is kept
    in the jobs for people who look. Raises what `Ledger` raises.
    """
    limits = limits or ClaimLimits()
    buckets = buckets_of_shard(shard, shards)
    params = {
        "start": window.start,
        "end": window.end,
        "window_key": window.key,
        "now": now,
        "today": now.date(),
        "owner": owner[:128],
        "profile": FETCH_PROFILE,
        "reserved_until": max(window.end, now) + RESERVATION,
        "deadline": window.end + DEADLINE,
    }
    with ledger.transaction() as tx:
        guard(tx, ledger.rules)  # manifests of this code would not match URLs that are spelled by other rules
    new = skipped = 0
    for _ in range(_REPLANS):
        plan = _plan(
            ledger, buckets, params, limits.max_sources if limits.max_sources is None else limits.max_sources - new
        )
        try:
            for start in range(0, plan.sources.len(), limits.batch):
                batch = plan.sources.slice(start, limits.batch)
                refused = plan.refused.join(batch.to_frame(), on="source_url_id", how="semi")
                claimed, locked = ledger.run(lambda tx, b=batch, r=refused: _claim(tx, b, r, params))  # type: ignore[misc]
                new, skipped = new + claimed, skipped + batch.len() - locked
        except _QuotaMoved:
            continue
        break
    with ledger.transaction() as tx:
        due, expected = _read(tx, buckets, {**params, "identity_version": guard(tx, ledger.rules).version})
        projects = expected["project_id"].unique().to_pylist()
        rules = read_target_rules(tx, projects)
    counts = {"new": new, "before": due.num_rows - new, "deferred": plan.refused.height, "skipped": skipped}
    return Claim(due, expected, rules, counts)


# -- planning ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Plan:
    sources: pl.Series
    """source_url_id to claim, most urgent first."""
    refused: pl.DataFrame
    """(source_url_id, tenant_id) that are due but over a limit."""


_CANDIDATES = pa.schema(
    [
        ("source_url_id", pa.uint64()),
        ("tenant_id", pa.binary(16)),
        ("priority", pa.int16()),
        ("due_at", pa.timestamp("us", "UTC")),
        ("confirmation", pa.bool_()),
    ]
)
_WEIGHTS = pa.schema([("tenant_id", pa.binary(16)), ("weight", pa.uint16())])
_QUOTAS = pa.schema([("tenant_id", pa.binary(16)), ("weight", pa.uint16()), ("allowance", pa.int64())])


def _plan(ledger: Ledger, buckets: list[int], params: dict, max_sources: int | None) -> _Plan:
    with ledger.transaction() as tx:
        candidates = frame_of(tx.table(_in(query("claims/candidates"), buckets), _CANDIDATES, params))
        quotas = frame_of(tx.table(query("claims/quotas"), _QUOTAS, params))
    kept = fair_share(candidates, quotas, max_sources)
    urgent = kept.group_by("source_url_id").agg(pl.max("confirmation"), pl.max("priority"), pl.min("due_at"))
    urgent = urgent.sort("confirmation", "priority", "due_at", "source_url_id", descending=[True, True, False, False])
    refused = candidates.join(kept, on=["source_url_id", "tenant_id"], how="anti").select("source_url_id", "tenant_id")
    return _Plan(urgent["source_url_id"], refused)


def fair_share(candidates: pl.DataFrame, quotas: pl.DataFrame, capacity: int | None) -> pl.DataFrame:
    """The due checks (one row per source_url_id x tenant_id) that may be claimed now.

    Each tenant gets at most its `allowance` (no row in `quotas`: no limit, weight 1); when `capacity` is smaller than
    what is left, tenants share it by weight, and what one does not need goes to the others. Within a tenant
    confirmations come first, then higher priority, then what has been due for longest.
    """
    ranked = candidates.sort(
        "tenant_id", "confirmation", "priority", "due_at", "source_url_id", descending=[False, True, True, False, False]
    ).with_columns(rank=pl.int_range(pl.len()).over("tenant_id"))
    demand = ranked.group_by("tenant_id").len("demand").join(quotas, on="tenant_id", how="left")
    demand = demand.with_columns(
        pl.col("weight").fill_null(1).clip(1),
        pl.min_horizontal("demand", pl.col("allowance").clip(0)).fill_null(pl.col("demand")).alias("demand"),
    )
    if capacity is not None and demand["demand"].sum() > capacity:
        demand = _share_out(demand, max(capacity, 0))
    else:
        demand = demand.with_columns(share=pl.col("demand"))
    return (
        ranked.join(demand.select("tenant_id", "share"), on="tenant_id")
        .filter(pl.col("rank") < pl.col("share"))
        .drop("rank", "share")
    )


def _share_out(demand: pl.DataFrame, capacity: int) -> pl.DataFrame:
    """Weighted max-min fairness: tenants that want less than their share leave the rest to the others."""
    wanted = dict(zip(demand["tenant_id"], demand["demand"], strict=True))
    weight = dict(zip(demand["tenant_id"], demand["weight"], strict=True))
    share = dict.fromkeys(wanted, 0)
    left = capacity
    while left > 0 and (open_ := sorted(t for t in wanted if share[t] < wanted[t])):
        total = sum(weight[t] for t in open_)
        given = 0
        for tenant in open_:
            more = min(wanted[tenant] - share[tenant], left * weight[tenant] // total)
            share[tenant] += more
            given += more
        if given == 0:  # less than one each: to the heaviest first
            for tenant in sorted(open_, key=lambda t: (-weight[t], t))[:left]:
                share[tenant] += 1
                given += 1
        left -= given
    return demand.with_columns(share=pl.Series([share[t] for t in demand["tenant_id"]], dtype=pl.Int64))


# -- claiming and reading ---------------------------------------------------------------------------------------------


def _claim(tx: Transaction, sources: pl.Series, refused: pl.DataFrame, params: dict) -> tuple[int, int]:
    """Claim a batch. Returns (sources newly claimed in this window, sources that could be locked)."""
    tx.stage("stage_sources", pa.table({"source_url_id": sources.sort().to_arrow()}), key=["source_url_id"])
    tx.stage("stage_refused", refused.to_arrow().cast(_REFUSED), key=["source_url_id", "tenant_id"])
    tx.stage("stage_locked", _LOCKED.empty_table(), key=["source_url_id"])
    tx.stage("stage_consumers", _CONSUMERS.empty_table(), key=["project_id", "source_url_id"], index=["source_url_id"])
    locked = tx.execute(query("claims/lock_sources"), params)
    new = 0
    for statement in script("claims/claim"):
        changed = tx.execute(statement, params)
        if statement.startswith("INSERT INTO page_fetch_jobs"):
            new = changed
    if tx.row(query("claims/over_quota"), params) is not None:
        raise _QuotaMoved
    return new, locked


_REFUSED = pa.schema([("source_url_id", pa.uint64()), ("tenant_id", pa.binary(16))])
_LOCKED = pa.schema([("source_url_id", pa.uint64())])
_CONSUMERS = pa.schema(
    [
        ("project_id", pa.binary(16)),
        ("tenant_id", pa.binary(16)),
        ("source_url_id", pa.uint64()),
        ("priority", pa.int16()),
        ("due_at", pa.timestamp("us", "UTC")),
        ("is_due", pa.bool_()),
        ("is_confirmation", pa.bool_()),
        ("run_id", pa.binary(16)),
        ("is_new", pa.bool_()),
    ]
)


def _read(tx: Transaction, buckets: list[int], params: dict) -> tuple[pa.Table, pa.Table]:
    expected = tx.table(_in(query("claims/expected"), buckets), EXPECTED_EDGES.schema, params)
    due = tx.table(_in(query("claims/due"), buckets), DUE_SOURCES.schema, params)
    edges = (
        pl.DataFrame({"source_url_id": pl.from_arrow(expected["source_url_id"])}).group_by("source_url_id").len("edges")
    )
    counted = pl.DataFrame({"source_url_id": pl.from_arrow(due["source_url_id"])}).join(
        edges, on="source_url_id", how="left", maintain_order="left"
    )
    due = due.set_column(
        due.column_names.index("edges"),
        DUE_SOURCES.schema.field("edges"),
        counted["edges"].fill_null(0).cast(pl.UInt32).to_arrow(),
    )
    due = due.filter(counted["edges"].is_not_null().to_arrow())
    return _with_payer(due, expected, tx.table(query("claims/weights"), _WEIGHTS)), expected


def _with_payer(due: pa.Table, expected: pa.Table, weights: pa.Table) -> pa.Table:
    """Who each page is charged to (`transforms.fairness`), of the tenants whose edges it holds."""
    wants = pl.DataFrame({name: pl.from_arrow(expected[name]) for name in ("source_url_id", "tenant_id")}).unique()
    urgency = pl.DataFrame({name: pl.from_arrow(due[name]) for name in ("source_url_id", "priority", "due_at")})
    limits = frame_of(weights)
    charged = charge(wants.join(urgency, on="source_url_id"), limits)
    payer = urgency.join(charged, on="source_url_id", how="left", maintain_order="left")
    for name in ("tenant_id", "tenant_weight"):
        field = DUE_SOURCES.schema.field(name)
        due = due.set_column(due.column_names.index(name), field, payer[name].to_arrow().cast(field.type))
    return due


def _in(sql: str, buckets: list[int]) -> str:
    """`{buckets}` as a list of constants: only then does MySQL read ranges of the index, bucket by bucket."""
    return sql.replace("{buckets}", ", ".join(str(int(each)) for each in buckets) or "NULL")
