"""Rows of `LINK_OBSERVATIONS`, `OCCURRENCES` and `DISCOVERED_EDGES` from what was matched. Here: assembly, keys,
hashes. Not here: who matches whom (`edges`), what a check proves (`transforms.evidence`).

`evidence_hash` is SHA-256 over a text of the row, made so that no two different rows give the same one:
- `observation_id`, then the columns from `observed_at` to `target_rule_ids` in schema order, joined by commas. What an
  observation id stands for (edge, run, source, target) and bookkeeping (consumer, job) are not repeated.
- Numbers in decimal, times in microseconds, bytes in hex, a text with its length in bytes and a colon before it, a list
  in brackets with spaces between, null as `-`.
- Last, all true-or-false columns as one number, two bits each from the lowest: 0 false, 1 true, 2 null.
It depends on nothing but the row: not on the order of rows, the slice, or the machine.
"""

from __future__ import annotations

import hashlib
from datetime import datetime

import polars as pl
import pyarrow as pa

from transforms.matching.edges import Matched
from transforms.matching.tolerance import tolerated_names
from transforms.reasons import Evidence, Health, Reason
from transforms.schemas import DISCOVERED_EDGES, LINK_OBSERVATIONS, OCCURRENCES

_FIRST, _LAST = (LINK_OBSERVATIONS.columns.index(name) for name in ("observed_at", "target_rule_ids"))
EVIDENCE_COLUMNS = ("observation_id", *LINK_OBSERVATIONS.columns[_FIRST : _LAST + 1])
"""What `evidence_hash` covers."""


def observe(
    edges: pl.DataFrame,
    links: pl.DataFrame,
    matched: Matched,
    sources: pl.DataFrame,
    target_health: pl.DataFrame,
    window_start: datetime,
) -> pa.Table:
    """One `LINK_OBSERVATIONS` row per edge, in the order of `edges`; `ingest_version` is 0 until it is loaded.

    `sources` is `transforms.evidence.source_evidence`; `target_health` has the newest row of each target. A source
    without a fetch outcome, like a target without a check, is `unknown`; such a row is observed at `window_start`.
    """
    facts = links.select(
        "link",
        "anchor_text",
        "rel_nofollow",
        "rel_ugc",
        "rel_sponsored",
        "follow",
        "placement",
        link_url="identity",
        is_image_link="is_image",
    )
    standing = (
        matched.pairs.group_by("edge")
        .agg(
            pl.col("link", "mask", "via_redirect").sort_by("rank").first(),
            link_count=pl.len().clip(upper_bound=65535).cast(pl.UInt16),
        )
        .join(facts, on="link", how="left")
        .drop("link")
    )
    health = target_health.select(
        "target_url_id",
        target_fetch_health="health",
        target_http_status="http_status",
        target_final_url="final_url",
        target_is_redirected="is_redirected",
        target_robots_indexable="robots_indexable",
    )
    rows = (
        edges.join(sources, on="source_url_id", how="left", maintain_order="left")
        .join(standing, on="edge", how="left", maintain_order="left")
        .join(matched.target_rules, on="edge", how="left", maintain_order="left")
        .join(health, on="target_url_id", how="left", maintain_order="left")
    )
    found = pl.col("mask").is_not_null() & pl.col("can_find").fill_null(value=False)
    fetched = pl.col("fetch_reason").is_not_null()
    rows = rows.with_columns(
        evidence=pl.when(found)
        .then(pl.lit(Evidence.FOUND.value))
        .when(pl.col("is_missing").fill_null(value=False))
        .then(pl.lit(Evidence.MISSING.value))
        .otherwise(pl.lit(Evidence.NONE.value)),
        evidence_reason=pl.when(found & pl.col("via_redirect"))
        .then(pl.lit(Reason.LINK_FOUND_VIA_REDIRECT.value))
        .when(found)
        .then(pl.lit(Reason.LINK_FOUND.value))
        .when(fetched)
        .then("absent_reason")
        .otherwise(pl.lit(Reason.NOT_FETCHED.value)),
        evidence_complete=pl.when(found).then("is_complete").otherwise("is_missing").fill_null(value=False),
        # A link that was found on an odd page (a shell with a noscript link, say) is the answer of a healthy fetch.
        source_fetch_health=pl.when(found)
        .then(pl.lit(Health.OK.value))
        .otherwise(pl.col("health").fill_null(Health.UNKNOWN.value)),
        window_start=pl.lit(window_start).dt.cast_time_unit("us"),
        observed_at=pl.col("observed_at").fill_null(pl.lit(window_start).dt.cast_time_unit("us")),
        source_is_redirected=pl.col("source_is_redirected").fill_null(value=False),
        target_fetch_health=pl.col("target_fetch_health").fill_null(Health.UNKNOWN.value),
        target_is_redirected=pl.col("target_is_redirected").fill_null(value=False),
        tolerated=tolerated_names(pl.col("mask").fill_null(0)),
        link_count=pl.col("link_count").fill_null(0),
        is_redirected=pl.col("via_redirect").fill_null(value=False),
        rel_nofollow=pl.col("rel_nofollow").fill_null(value=False),
        rel_ugc=pl.col("rel_ugc").fill_null(value=False),
        rel_sponsored=pl.col("rel_sponsored").fill_null(value=False),
        is_image_link=pl.col("is_image_link").fill_null(value=False),
        target_rule_ids=pl.col("target_rule_ids").fill_null([]),
        idempotency_key=sha256_of(
            rows.select(
                pl.concat_str(
                    pl.col("crawl_run_id").bin.encode("hex"), pl.lit(":"), "source_url_id", pl.lit(":"), "target_url_id"
                )
            ).to_series()
        ),
        ingest_version=pl.lit(0, pl.UInt64),
    )
    rows = rows.with_columns(
        observation_id=pl.col("idempotency_key").bin.slice(0, 8).bin.reinterpret(dtype=pl.UInt64, endianness="big")
    )
    rows = rows.with_columns(evidence_hash=evidence_hash(rows))
    return LINK_OBSERVATIONS.conform(rows.select(LINK_OBSERVATIONS.columns).to_arrow())


def occurrences(edges: pl.DataFrame, links: pl.DataFrame, matched: Matched, sources: pl.DataFrame) -> pa.Table:
    """One `OCCURRENCES` row per link that stands for an edge, redirected ones included."""
    facts = links.select(
        "link", "occurrence_key", "position", "kind", "anchor_text", "rel_nofollow", "rel_ugc", "rel_sponsored",
        "follow", "is_image", "placement", "locator", link_url="identity",
    )  # fmt: skip
    rows = (
        matched.pairs.sort("edge", "position")
        .select("edge", "link")
        .join(edges.select("edge", "backlink_id", "source_url_id"), on="edge", how="left", maintain_order="left")
        .join(facts, on="link", how="left", maintain_order="left")
        .join(sources.select("source_url_id", "observed_at"), on="source_url_id", how="left", maintain_order="left")
    )
    return OCCURRENCES.conform(rows.select(OCCURRENCES.columns).to_arrow())


def discoveries(edges: pl.DataFrame, links: pl.DataFrame, matched: Matched, sources: pl.DataFrame) -> pa.Table:
    """One `DISCOVERED_EDGES` row per new edge; run and page are those of the project's consumer of the source."""
    consumer = edges.select(
        "tenant_id", "project_id", "crawl_run_id", "crawl_page_id", "source_url_id", "source_url",
        "source_url_hash", "source_registrable_domain",
    ).unique(["project_id", "source_url_id"], keep="first", maintain_order=True)  # fmt: skip
    facts = links.select(
        "link", "position", "anchor_text", "rel_nofollow", "rel_ugc", "rel_sponsored", "follow", "is_image",
        "placement",
        target_url="identity", target_url_hash="identity_hash", target_host="host",
        target_registrable_domain=pl.coalesce("registrable_domain", "host"),
    )  # fmt: skip
    rows = (
        matched.discovered.join(consumer, on=["project_id", "source_url_id"], how="left")
        .join(facts, on="link", how="left")
        .join(sources.select("source_url_id", "observed_at"), on="source_url_id", how="left")
        .with_columns(pl.col("link_count").clip(upper_bound=65535).cast(pl.UInt16))
        .sort("project_id", "source_url_id", "position")
    )
    return DISCOVERED_EDGES.conform(rows.select(DISCOVERED_EDGES.columns).to_arrow())


def evidence_hash(rows: pl.DataFrame) -> pl.Series:
    """SHA-256 of each row's evidence (see the module's docstring); `rows` has the columns of `LINK_OBSERVATIONS`."""
    fields = [LINK_OBSERVATIONS.schema.field(name) for name in EVIDENCE_COLUMNS]
    flags = [field for field in fields if pa.types.is_boolean(field.type)]
    texts = [_text(field) for field in fields if field not in flags]
    bits = pl.sum_horizontal(
        pl.col(field.name).cast(pl.UInt32).fill_null(2) * (1 << 2 * place) for place, field in enumerate(flags)
    )
    return sha256_of(rows.select(pl.concat_str(*texts, bits.cast(pl.String), separator=",")).to_series())


def _text(field: pa.Field) -> pl.Expr:
    value = pl.col(field.name)
    kind = field.type
    if pa.types.is_string(kind):
        text = pl.concat_str(value.str.len_bytes().cast(pl.String), pl.lit(":"), value)
    elif pa.types.is_fixed_size_binary(kind):
        text = value.bin.encode("hex")
    elif pa.types.is_timestamp(kind):
        text = value.dt.epoch("us").cast(pl.String)
    elif pa.types.is_list(kind):
        hexed = pa.types.is_fixed_size_binary(kind.value_type)
        items = value.list.eval(pl.element().bin.encode("hex")) if hexed else value
        text = pl.lit("[") + items.list.join(" ") + pl.lit("]")
    else:
        text = value.cast(pl.String)
    return text.fill_null("-") if field.nullable else text


def sha256_of(texts: pl.Series) -> pl.Series:
    """SHA-256 of each string, as 32-byte binaries. The one loop in Python: 1 to 2 µs a row, most of it hashing."""
    sha = hashlib.sha256
    return pl.Series([sha(data).digest() for data in texts.cast(pl.Binary).to_list()], dtype=pl.Binary)
