"""A page whose links are suddenly gone: when that is a collapse, how long it is held, and when it is believed. Here:
pure rules over columns. Not here: where the numbers are kept (`warehouse.ledger.parses`), evidence (`transforms.evidence`).

A page is compared with its last *good* manifest: the last complete page of that source that was no collapse itself. So
a page that stays collapsed is a collapse at the second and third look as well; the collapsed page never becomes the
measure of itself.

| against the last good manifest | is |
|---|---|
| it had at least 10 links, and less than a fifth of them are left, whatever the text | a collapse |
| at most a fifth of its links and at most a third of its text are left | a collapse |
| at most half of its links and at most a tenth of its text are left | a collapse |
| anything else: our link is gone and the page is there | an ordinary page |

The first row is a template whose list did not load, on pages large enough for that to be no accident. The other two hold
for pages of any size: "back soon" with status 200 leaves neither links nor text. A page that drops one link of two, or its
only one, and keeps its text, is an ordinary page without the link.

A collapse proves nothing (DESIGN.md §4), but a page may also be cut down for good. It is believed, and becomes the good
manifest that later looks are compared with, once it was seen at least `BELIEVED_LOOKS` times, the first of them at least
`BELIEVED_AFTER` ago: a deployment, a broken template or a maintenance page is repaired within a day, and a page that is
asked every few hours over a whole day has been seen at its busy and its quiet hours. Only then do misses begin to count, so
such a link is lost a day and a confirmation later. One look at a whole page begins the count anew.
"""

from __future__ import annotations

from datetime import timedelta

import polars as pl

MIN_LINKS = 10
FEW_LINKS, LITTLE_TEXT = 1 / 5, 1 / 3
HALF_LINKS, NO_TEXT = 1 / 2, 1 / 10
BELIEVED_LOOKS = 3
BELIEVED_AFTER = timedelta(hours=24)

PRIOR_COLUMNS = ("prior_link_count", "prior_text_bytes", "collapsed_looks", "collapsed_since")
"""What is remembered of a source (`DUE_SOURCES`): its last good manifest, and the collapsed looks since then."""


def fell() -> pl.Expr:
    """Is the page (`page_link_count`, `page_text_bytes`) a collapse of its last good manifest (`PRIOR_COLUMNS`)?
    False where one of them is not known."""
    links, text = pl.col("page_link_count"), pl.col("page_text_bytes")
    had, had_text = pl.col("prior_link_count"), pl.col("prior_text_bytes")
    many = (had >= MIN_LINKS) & (links < had * FEW_LINKS)
    few = (had >= 1) & (links <= had * FEW_LINKS) & (had_text >= 1) & (text <= had_text * LITTLE_TEXT)
    half = (had >= 1) & (links <= had * HALF_LINKS) & (had_text >= 1) & (text <= had_text * NO_TEXT)
    return many.fill_null(value=False) | few.fill_null(value=False) | half.fill_null(value=False)


def is_held() -> pl.Expr:
    """A collapse that is not believed yet: the page (seen at `observed_at`) proves no absence."""
    return fell() & ~_is_believed()


def _looks() -> pl.Expr:
    return pl.col("collapsed_looks").fill_null(0).cast(pl.UInt32) + 1


def _is_believed() -> pl.Expr:
    since = pl.col("observed_at") - pl.coalesce("collapsed_since", "observed_at")
    return (_looks() >= BELIEVED_LOOKS) & (since >= BELIEVED_AFTER)


def remembered() -> list[pl.Expr]:
    """`PRIOR_COLUMNS` as the next look at the source must find them, after a look at a complete page."""
    held = is_held()
    return [
        pl.when(held).then("prior_link_count").otherwise("page_link_count").cast(pl.UInt32).alias("prior_link_count"),
        pl.when(held).then("prior_text_bytes").otherwise("page_text_bytes").cast(pl.UInt32).alias("prior_text_bytes"),
        pl.when(held).then(_looks().clip(upper_bound=65_535)).otherwise(0).cast(pl.UInt16).alias("collapsed_looks"),
        pl.when(held).then(pl.coalesce("collapsed_since", "observed_at")).alias("collapsed_since"),
    ]
