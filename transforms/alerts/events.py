"""What happened to an edge, as event types. Here: the vocabulary. Not here: which rule wants which.

| event type | when |
|---|---|
| `backlink.new`, `backlink.lost`, `backlink.recovered` | the transition of that name |
| `backlink.rel_changed`, `.anchor_changed`, `.placement_changed`, `.redirect_changed` | the link itself changed |
| `source.noindex`, `source.indexable`, `source.canonical_changed` | the source page changed |
| `target.broken`, `target.blocked`, `target.repaired` | the target's health became error, blocked, ok |
| `target.noindex`, `target.indexable`, `target.redirect_changed` | the target page changed |

A rule names event types, or patterns of them (`backlink.*`, `*`).
"""

from __future__ import annotations

import polars as pl

TRANSITIONS = ("new", "lost", "recovered")

_CHANGED = {
    "rel": "backlink.rel_changed",
    "anchor": "backlink.anchor_changed",
    "placement": "backlink.placement_changed",
    "redirect": "backlink.redirect_changed",
    "source_canonical": "source.canonical_changed",
    "target_redirect": "target.redirect_changed",
}

EVENT_TYPES: tuple[str, ...] = (
    *(f"backlink.{name}" for name in TRANSITIONS),
    *_CHANGED.values(),
    "source.noindex",
    "source.indexable",
    "target.broken",
    "target.blocked",
    "target.repaired",
    "target.noindex",
    "target.indexable",
)


def happened(states: pl.DataFrame, observations: pl.DataFrame) -> pl.DataFrame:
    """One row per thing that happened: the state's columns, the observation's (`o_…`), and `event_type`.

    `states` are `EDGE_STATES`, `observations` the `LINK_OBSERVATIONS` they stand after. A state whose observation is
    not among them tells nobody anything: there would be no evidence to show.
    """
    shown = observations.rename({name: f"o_{name}" for name in observations.columns if name != "observation_id"})
    rows = states.join(
        shown.unique("observation_id", keep="last"), on="observation_id", how="inner", maintain_order="left"
    )
    moved = rows.filter(pl.col("event").is_in(TRANSITIONS)).with_columns(event_type="backlink." + pl.col("event"))
    changed = rows.explode("changes").drop_nulls("changes")
    indexable = (
        pl.when("o_source_robots_indexable").then(pl.lit("source.indexable")).otherwise(pl.lit("source.noindex"))
    )
    target_indexable = (
        pl.when("o_target_robots_indexable").then(pl.lit("target.indexable")).otherwise(pl.lit("target.noindex"))
    )
    health = pl.col("o_target_fetch_health").replace_strict(
        {"error": "target.broken", "blocked": "target.blocked", "ok": "target.repaired"},
        default=None,
        return_dtype=pl.String,
    )
    changed = changed.with_columns(
        event_type=pl.when(pl.col("changes") == "source_indexability")
        .then(indexable)
        .when(pl.col("changes") == "target_indexability")
        .then(target_indexable)
        .when(pl.col("changes") == "target_health")
        .then(health)
        .otherwise(pl.col("changes").replace_strict(_CHANGED, default=None, return_dtype=pl.String))
    ).drop_nulls("event_type")
    return pl.concat([moved.drop("changes"), changed.drop("changes")])
