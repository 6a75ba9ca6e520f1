"""Who pays for a page that several tenants want. Here: one pure function. Not here: which pages are claimed
(`warehouse.ledger.claims.fair_share`), whose page is asked next (`crawl.politeness.frontier`).

A page is fetched once a window, whoever asks, so one request serves all who want it; charging each of them would make
shared pages the dearest, splitting it would need fractions of a turn. The rule: **a page is charged to the one of its
tenants with the largest unused share**, that is the fewest pages charged so far for its weight.

1. A page that one tenant alone wants is charged to it: nobody else can pay.
2. Shared pages follow, those with the fewest tenants first (they have the least choice), the most urgent first, each to
   whoever has (pages charged + 1) / weight least; among equals the smaller tenant id.

So a tenant never pays for more than it wants, every tenant's own pages keep their place, and sharing only ever helps: the
pages that others pay for come on top. Deterministic: the same pages and weights give the same charges.
"""

from __future__ import annotations

import polars as pl

CHARGES: dict[str, type[pl.DataType]] = {"source_url_id": pl.UInt64, "tenant_id": pl.Binary, "tenant_weight": pl.UInt16}


def charge(wants: pl.DataFrame, weights: pl.DataFrame) -> pl.DataFrame:
    """One row per page: source_url_id, tenant_id (who pays), tenant_weight; by source_url_id.

    `wants`: a row per (source_url_id, tenant_id), repeats allowed, with priority and due_at of the page. `weights`:
    tenant_id, weight; a tenant without a row, or with weight 0, has weight 1.
    """
    wants = wants.unique(["source_url_id", "tenant_id"], keep="first")
    tenants = wants.select("tenant_id").unique().join(weights, on="tenant_id", how="left")
    weight = {t: max(1, w or 1) for t, w in tenants.select("tenant_id", "weight").iter_rows()}
    pages = (
        wants.sort("tenant_id")
        .group_by("source_url_id")
        .agg(pl.col("tenant_id"), pl.max("priority"), pl.min("due_at"))
        .sort("priority", "due_at", "source_url_id", descending=[True, False, False])
    )
    alone = pages.filter(pl.col("tenant_id").list.len() == 1).select("source_url_id", pl.col("tenant_id").list.first())
    charged = dict.fromkeys(weight, 0) | dict(alone["tenant_id"].value_counts().iter_rows())
    shared = pages.filter(pl.col("tenant_id").list.len() > 1)
    parts = [alone]
    groups = shared.partition_by("tenant_id", maintain_order=True, include_key=True)
    for group in sorted(groups, key=lambda g: (len(g["tenant_id"][0]), g["tenant_id"][0].to_list())):
        of = group["tenant_id"][0].to_list()
        paid = _level(of, group.height, charged, weight)
        for tenant, count in paid.value_counts().iter_rows():
            charged[tenant] += count
        parts.append(group.select("source_url_id").with_columns(tenant_id=paid))
    result = pl.concat(parts).join(
        pl.DataFrame(list(weight.items()), schema={"tenant_id": pl.Binary, "tenant_weight": pl.UInt16}, orient="row"),
        on="tenant_id",
    )
    return result.cast(CHARGES).sort("source_url_id")  # type: ignore[arg-type]


def _level(tenants: list[bytes], pages: int, charged: dict[bytes, int], weight: dict[bytes, int]) -> pl.Series:
    """Who pays for each of so many pages, in order: a tenant's n-th turn comes at (charged + n) / weight, and the first
    `pages` turns of all are taken."""
    turns = pl.concat(
        pl.select(at=(pl.int_range(1, pages + 1) + charged[tenant]) / weight[tenant]).with_columns(who=pl.lit(number))
        for number, tenant in enumerate(tenants)
    )
    who = turns.sort("at", "who").head(pages)["who"]
    return pl.Series("tenant_id", tenants, pl.Binary).gather(who)
