"""URLs and edges: the dictionary and the graph. Here: registering them, set-based, in bounded batches. Not here:
reading files (`warehouse.imports`), deciding states (`writeback`)."""

from __future__ import annotations

from datetime import datetime

import polars as pl
import pyarrow as pa

from transforms.urls import NORMALIZATION_VERSION
from warehouse.ledger.engine import Ledger, Transaction
from warehouse.ledger.errors import LedgerConstraint
from warehouse.ledger.keys import FETCH_PROFILE
from warehouse.ledger.sql import query, script
from warehouse.ledger.tables import EDGES, REGISTERED_EDGES, URLS

BATCH = 5_000
_HOST = "VARCHAR(253) CHARACTER SET ascii COLLATE ascii_general_ci"


def urls_of(identities: pa.Table) -> pa.Table:
    """`transforms.urls.identify_many` → `URLS`. Every row must have an identity (filter the refused ones first)."""
    return URLS.conform(
        pa.table(
            {
                "url": identities["identity"],
                "url_hash": identities["url_hash"],
                "host": identities["host"],
                "registrable_domain": identities["site"],
                "public_suffix": identities["public_suffix"],
            }
        )
    )


def register_urls(ledger: Ledger, urls: pa.Table) -> pa.Table:
    """Register URL identities (`URLS`) that are not known yet. The same rows in the same order, with `url_id`
    (urls.id).

    Equal rows are fine. Each batch is a transaction of its own; registering again changes nothing.
    """
    urls = URLS.conform(urls)
    ids = [_register_urls(ledger, urls.slice(start, BATCH)) for start in range(0, urls.num_rows, BATCH)]
    return urls.append_column("url_id", pa.chunked_array(ids, pa.uint64()))


def register_edges(
    ledger: Ledger, edges: pa.Table, *, source: str, now: datetime, provider: str | None = None, due_now: bool = False
) -> pa.Table:
    """Register edges (`EDGES`); one `REGISTERED_EDGES` row per input row, in order.

    `source` is how they were found: crawler | provider_import | search_console | manual | api. A new edge falls due
    within its project's interval, spread by its source's hash, or at once with `due_now`; a known one keeps its
    schedule and its history (`due_now` pulls it forward too: somebody asks now). Who found an edge, and when last, is
    kept in `backlink_discoveries`. Raises `LedgerConstraint` when a project or a URL does not exist.
    """
    edges = EDGES.conform(edges)
    parts = [
        _register_edges(ledger, edges.slice(start, BATCH), source, provider, due_now, now)
        for start in range(0, edges.num_rows, BATCH)
    ]
    return pa.concat_tables(parts) if parts else REGISTERED_EDGES.empty()


def _register_urls(ledger: Ledger, urls: pa.Table) -> pa.Array:
    frame = pl.from_arrow(urls)
    assert isinstance(frame, pl.DataFrame)
    unique = frame.unique("url_hash", keep="first", maintain_order=True)
    parts = unique["url"].str.extract_groups(r"^(https?)://[^/?]*(?P<path>[^?]*)(?:\?(?P<query>.*))?$")
    staged = unique.with_columns(
        scheme=parts.struct.field("1"), path=parts.struct.field("path"), query_string=parts.struct.field("query")
    ).to_arrow()
    staged = staged.cast(pa.schema([_narrow(field) for field in staged.schema]))

    def work(tx: Transaction) -> pa.Table:
        tx.stage(
            "stage_urls",
            staged,
            key=["url_hash"],
            index=["host"],
            types={"host": _HOST, "registrable_domain": _HOST, "public_suffix": _HOST},
        )
        for statement in script("edges/register_urls"):
            tx.execute(statement, {"version": NORMALIZATION_VERSION})
        return tx.table(query("edges/url_ids"), _IDS)

    found = pl.from_arrow(ledger.run(work))
    assert isinstance(found, pl.DataFrame)
    ids = frame.select("url_hash").join(found, on="url_hash", how="left", maintain_order="left")["url_id"]
    assert ids.null_count() == 0
    return ids.to_arrow()


_IDS = pa.schema([("url_hash", pa.binary(32)), ("url_id", pa.uint64())])


def _narrow(field: pa.Field) -> pa.Field:
    """polars writes large strings and plain binaries; the stage wants the exact types."""
    if field.name == "url_hash":
        return field.with_type(pa.binary(32))
    return field.with_type(pa.string())


def _register_edges(
    ledger: Ledger, edges: pa.Table, source: str, provider: str | None, due_now: bool, now: datetime
) -> pa.Table:
    frame = pl.from_arrow(edges)
    assert isinstance(frame, pl.DataFrame)
    identity = ["project_id", "source_url_id", "target_url_id"]
    first = frame.select(pl.struct(identity).is_first_distinct().alias("first"))["first"]
    unique = edges.filter(first.to_arrow()).append_column("backlink_id", pa.nulls(int(first.sum()), pa.uint64()))
    params = {"source": source, "provider": provider, "due_now": due_now, "now": now, "profile": FETCH_PROFILE}

    def work(tx: Transaction) -> pa.Table:
        tx.stage("stage_edges", unique, key=identity, index=["backlink_id"])
        tx.execute(query("edges/known_edges"))
        for statement in script("edges/register_edges"):
            tx.execute(statement, params)
        return tx.table(query("edges/edge_ids"), _EDGE_IDS)

    found = pl.from_arrow(ledger.run(work))
    assert isinstance(found, pl.DataFrame)
    answer = frame.select(identity).join(found, on=identity, how="left", maintain_order="left")
    if answer["backlink_id"].null_count():
        row = answer.row(int(answer["backlink_id"].is_null().arg_max() or 0), named=True)
        raise LedgerConstraint(
            f"an edge cannot be registered: project {row['project_id'].hex()}, source URL {row['source_url_id']} or "
            f"target URL {row['target_url_id']} does not exist"
        )
    table = answer.with_columns(is_new=pl.col("is_new").cast(pl.Boolean) & first).to_arrow()
    return REGISTERED_EDGES.conform(table)


_EDGE_IDS = pa.schema(
    [
        ("project_id", pa.binary(16)),
        ("source_url_id", pa.uint64()),
        ("target_url_id", pa.uint64()),
        ("backlink_id", pa.uint64()),
        ("is_new", pa.bool_()),
    ]
)
