"""URLs and edges: the dictionary and the graph. Here: registering them, set-based, in bounded batches. Not here:
reading files (`warehouse.imports`), deciding states (`writeback`)."""

from __future__ import annotations

from datetime import datetime

import polars as pl
import pyarrow as pa

from transforms.arrays import frame_of
from transforms.urls import Normalization, url_hash
from warehouse.ledger.engine import Ledger, Transaction
from warehouse.ledger.errors import LedgerConstraint
from warehouse.ledger.identities import guard
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

    Equal rows are fine. Each batch is a transaction of its own; registering again changes nothing. Rows whose hash is not
    of the ledger's version (links of a manifest that older code parsed) are identified again. Raises
    `IdentityVersionMismatch` when the ledger is at another version than this code.
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
    frame = _of_this_version(urls, ledger.rules)
    unique = frame.unique("url_hash", keep="first", maintain_order=True)
    parts = unique["url"].str.extract_groups(r"^(https?)://[^/?]*(?P<path>[^?]*)(?:\?(?P<query>.*))?$")
    staged = unique.with_columns(
        scheme=parts.struct.field("1"), path=parts.struct.field("path"), query_string=parts.struct.field("query")
    ).to_arrow()
    staged = staged.cast(pa.schema([_narrow(field) for field in staged.schema]))
    staged = staged.append_column("url_id", pa.nulls(staged.num_rows, pa.uint64()))

    def work(tx: Transaction) -> pa.Table:
        standing = guard(tx, ledger.rules, writing=True)
        params = {"version": standing.version, "from_version": standing.from_version}
        tx.stage("stage_urls", staged, key=["url_hash"], index=["host"], types=_URL_TYPES)
        tx.execute(query("edges/known_urls"))
        if standing.from_version is not None:
            for statement in script("edges/known_urls_before"):
                tx.execute(statement, params)
        for statement in script("edges/register_urls"):
            tx.execute(statement, params)
        return tx.table(query("edges/url_ids"), _IDS)

    found = frame_of(ledger.run(work))
    ids = frame.select("url_hash").join(found, on="url_hash", how="left", maintain_order="left")["url_id"]
    assert ids.null_count() == 0
    return ids.to_arrow()


def _of_this_version(urls: pa.Table, rules: Normalization) -> pl.DataFrame:
    """The rows, those of another version of the rules identified again."""
    frame = frame_of(urls)
    hashes = [url_hash(url, rules.version) for url in frame["url"]]
    stale = frame["url_hash"] != pl.Series(hashes, dtype=pl.Binary)
    if not stale.any():
        return frame
    again = rules.identify(frame["url"].to_list())
    if again["identity"].null_count:
        at = again["identity"].is_null().index(True).as_py()
        raise LedgerConstraint(
            f"{frame['url'][at]!r} has no identity of version {rules.version} ({again['reason'][at].as_py()}): it comes "
            "from a manifest of older code; materialise link_manifests of its window again"
        )
    return frame_of(urls_of(again))


_URL_TYPES = {"host": _HOST, "registrable_domain": _HOST, "public_suffix": _HOST}


_IDS = pa.schema([("url_hash", pa.binary(32)), ("url_id", pa.uint64())])


def _narrow(field: pa.Field) -> pa.Field:
    """polars writes large strings and plain binaries; the stage wants the exact types."""
    if field.name == "url_hash":
        return field.with_type(pa.binary(32))
    return field.with_type(pa.string())


def _register_edges(
    ledger: Ledger, edges: pa.Table, source: str, provider: str | None, due_now: bool, now: datetime
) -> pa.Table:
    identity = ["project_id", "source_url_id", "target_url_id"]
    params = {"source": source, "provider": provider, "due_now": due_now, "now": now, "profile": FETCH_PROFILE}

    def work(tx: Transaction) -> tuple[pl.DataFrame, pl.Series, pa.Table]:
        standing = guard(tx, ledger.rules, writing=True)
        frame = _survivors(tx, edges, standing.version)
        if standing.from_version is not None:
            frame = _as_known(tx, frame, standing.version)
        first = frame.select(pl.struct(identity).is_first_distinct().alias("first"))["first"]
        unique = frame.filter(first).to_arrow().cast(EDGES.schema)
        unique = unique.append_column("backlink_id", pa.nulls(unique.num_rows, pa.uint64()))
        tx.stage("stage_edges", unique, key=identity, index=["backlink_id"])
        tx.execute(query("edges/known_edges"))
        for statement in script("edges/register_edges"):
            tx.execute(statement, params)
        return frame, first, tx.table(query("edges/edge_ids"), _EDGE_IDS)

    frame, first, registered = ledger.run(work)
    found = frame_of(registered)
    answer = frame.select(identity).join(found, on=identity, how="left", maintain_order="left")
    if answer["backlink_id"].null_count():
        row = answer.row(int(answer["backlink_id"].is_null().arg_max() or 0), named=True)
        raise LedgerConstraint(
            f"an edge cannot be registered: project {row['project_id'].hex()}, source URL {row['source_url_id']} or "
            f"target URL {row['target_url_id']} does not exist"
        )
    table = answer.with_columns(is_new=pl.col("is_new").cast(pl.Boolean) & first).to_arrow()
    return REGISTERED_EDGES.conform(table)


def _survivors(tx: Transaction, edges: pa.Table, version: int) -> pl.DataFrame:
    """The rows, with URLs that were merged away since they were looked up replaced by those that they became."""
    frame = frame_of(edges)
    params = {"version": version}
    if tx.row(_ANY_MERGED, params) is None:
        return frame
    ids = pl.concat([frame["source_url_id"], frame["target_url_id"]]).unique().sort()
    tx.stage("stage_ids", pa.table({"id": ids.to_arrow()}), key=["id"])
    became = dict(tx.rows(query("edges/merged_urls"), params))
    ends = ("source_url_id", "target_url_id")
    return frame.with_columns(pl.col(end).replace(became) for end in ends) if became else frame


def _as_known(tx: Transaction, frame: pl.DataFrame, version: int) -> pl.DataFrame:
    """While a migration rewrites: rows whose edge still stands at a URL that will be merged away name it so."""
    ids = pl.concat([frame["source_url_id"], frame["target_url_id"]]).unique().sort()
    tx.stage("stage_ids", pa.table({"id": ids.to_arrow()}), key=["id"])
    aliases = tx.table(query("edges/aliases"), _ALIASES, {"version": version})
    if not aliases.num_rows:
        return frame
    own = pa.table({"url_id": ids.to_arrow(), "alias_id": ids.to_arrow()}, schema=_ALIASES)
    for name in ("stage_sources", "stage_targets"):
        tx.stage(name, pa.concat_tables([own, aliases]), key=["url_id", "alias_id"])
    asked = frame.select("project_id", "source_url_id", "target_url_id").with_row_index("position").to_arrow()
    tx.stage("stage_asked", asked.cast(_ASKED), key=["position"])
    known = {position: (source, target) for position, source, target in tx.rows(query("edges/known_under_aliases"))}
    if not known:
        return frame
    rows = range(frame.height)
    ends = {
        end: pl.Series([known[row][at] if row in known else old for row, old in zip(rows, frame[end], strict=True)],
                       dtype=pl.UInt64)
        for at, end in enumerate(("source_url_id", "target_url_id"))
    }  # fmt: skip
    return frame.with_columns(**ends)


_ALIASES = pa.schema([("url_id", pa.uint64()), ("alias_id", pa.uint64())])
_ASKED = pa.schema(
    [
        ("position", pa.uint32()),
        ("project_id", pa.binary(16)),
        ("source_url_id", pa.uint64()),
        ("target_url_id", pa.uint64()),
    ]
)
_ANY_MERGED = "SELECT url_id FROM url_identity_changes WHERE to_version = %(version)s AND verdict = 'merged' LIMIT 1"

_EDGE_IDS = pa.schema(
    [
        ("project_id", pa.binary(16)),
        ("source_url_id", pa.uint64()),
        ("target_url_id", pa.uint64()),
        ("backlink_id", pa.uint64()),
        ("is_new", pa.bool_()),
    ]
)
