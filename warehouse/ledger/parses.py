"""Which snapshots were parsed, by which parser, and where the manifest is. Here: finding and registering manifests,
and what the newest of a source looked like. Not here: parsing, the manifests themselves (Parquet)."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from transforms.arrays import frame_of
from transforms.collapse import PRIOR_COLUMNS
from transforms.schemas import DUE_SOURCES, PAGE_MANIFESTS
from transforms.schemas.manifests import MANIFEST_SCHEMA_VERSION
from warehouse.ledger.engine import Ledger, Transaction
from warehouse.ledger.sql import query, script
from warehouse.ledger.tables import PARSED

BATCH = 5_000
RETRIABLE = frozenset({"parse_timeout", "parse_failed"})
"""How a parse may end without a manifest that could be reused: it is tried again."""


def find_parsed(ledger: Ledger, manifest_ids: Sequence[bytes]) -> pa.Table:
    """Those of the manifests that exist already (`PARSED`), in no order."""
    parts = []
    for start in range(0, len(manifest_ids), BATCH):
        ids = sorted(set(manifest_ids[start : start + BATCH]))

        def work(tx: Transaction, ids: list[bytes] = ids) -> pa.Table:
            tx.stage("stage_manifests", pa.table({"manifest_id": pa.array(ids, pa.binary(16))}), key=["manifest_id"])
            return tx.table(query("parses/find"), PARSED.schema)

        parts.append(ledger.run(work))
    return pa.concat_tables(parts) if parts else PARSED.empty()


def register_parsed(ledger: Ledger, pages: pa.Table, *, manifest_key: str) -> int:
    """Register the page rows (`PAGE_MANIFESTS`) of a Parquet part at `manifest_key`. Returns how many were new.

    A manifest that is known keeps its key unless it had failed, so a reused one goes on pointing at the part it was
    written to first. Consumers that wait for the parse are linked to it. Registering again changes nothing.
    """
    pages = PAGE_MANIFESTS.conform(pages)
    new = 0
    for start in range(0, pages.num_rows, BATCH):
        frame = frame_of(pages.slice(start, BATCH))
        rows = frame.unique("manifest_id", keep="first", maintain_order=True).select(
            "manifest_id",
            "content_hash",
            "source_url_id",
            "document_url",
            "parser_version",
            "reason",
            "link_count",
            "is_truncated",
        )
        table = rows.to_arrow().cast(pa.schema([PAGE_MANIFESTS.schema.field(name) for name in rows.columns]))
        consumers = frame.select("source_url_id", "manifest_id").unique("source_url_id").to_arrow().cast(_CONSUMERS)

        def work(tx: Transaction, table: pa.Table = table, consumers: pa.Table = consumers) -> int:
            types = {"reason": "VARCHAR(64)", "parser_version": "VARCHAR(64)"}
            tx.stage("stage_pages", table, key=["manifest_id"], types=types)
            tx.stage("stage_consumers", consumers, key=["source_url_id"], index=["manifest_id"])
            params = {"key": manifest_key, "schema_version": MANIFEST_SCHEMA_VERSION}
            known = tx.row(query("parses/count_known"))
            for statement in script("parses/register"):
                tx.execute(statement, params)
            after = tx.row(query("parses/count_known"))
            assert known is not None
            assert after is not None
            return int(after[0]) - int(known[0])

        new += ledger.run(work)
    return new


def remember_looks(ledger: Ledger, looks: pa.Table) -> None:
    """Keep what complete pages looked like (`transforms.evidence.page_looks`) for the next claim of their sources.

    Of a source only the look of its newest fetch counts. Remembering again changes nothing.
    """
    rows = looks.select(_LOOKS.names).cast(_LOOKS)
    for start in range(0, rows.num_rows, BATCH):
        batch = rows.slice(start, BATCH)

        def work(tx: Transaction, batch: pa.Table = batch) -> None:
            tx.stage("stage_looks", batch, key=["source_url_id"])
            tx.execute(query("parses/looks"))

        ledger.run(work)


_LOOKS = pa.schema(
    [
        ("source_url_id", pa.uint64()),
        ("fetch_job_id", pa.uint64()),
        *((name, DUE_SOURCES.schema.field(name).type) for name in PRIOR_COLUMNS),
    ]
)
_CONSUMERS = pa.schema([("source_url_id", pa.uint64()), ("manifest_id", pa.binary(16))])
