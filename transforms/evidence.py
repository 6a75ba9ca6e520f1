"""What one check of one source proves. Here: fetch outcome + page manifest -> evidence, its reason, and source health.
Not here: which link stands for which edge (`transforms.matching`), or the fold of evidence into states (dbt).

The rules (DESIGN.md section 4), first match wins:

| the check of the source                                         | a matching link | none                    |
| --------------------------------------------------------------- | --------------- | ----------------------- |
| no outcome of this window                                       |                 | none, not_fetched       |
| 404 or 410                                                      |                 | **missing**, http_404 / http_410 |
| no readable body: any other reason but those of `READABLE`       |                 | none, the fetch's reason |
| body, but no manifest of that very body                         |                 | none, artifact_unavailable |
| parse failed, consent wall, blank page, ... (page reason)       | **found**       | none, the page's reason |
| documented marker of a challenge page                           | **found**       | none, challenge         |
| content appears only when scripts run                           | **found**       | none, script_shell      |
| body or parse truncated                                         | **found**       | none, body_ or parse_truncated |
| 200 with Retry-After: come back later                            | **found**       | none, maintenance       |
| links collapsed against the last good manifest                  | **found**       | none, link_collapse     |
| complete page                                                   | **found**       | **missing**, link_absent |

A link that is in the manifest of a final 2xx page is there, whatever else is odd about the page; its *absence* is only
proven by a complete page. So oddities never hide a link and never lose one.
What a collapse is, and when it is believed: `transforms.collapse`. Retry-After has no meaning with a 200 (RFC 9110
§10.2.3 defines it for 503, 429 and redirects): whoever sends it says that this is not the page yet.
"""

from __future__ import annotations

import polars as pl
import pyarrow as pa

from transforms import collapse
from transforms.arrays import frame_of
from transforms.fetches import latest_fetches
from transforms.reasons import FOUND_ONLY, READABLE, SOURCE_GONE, Health, Reason

_OK = frozenset({
    Reason.OK, Reason.NOT_MODIFIED, Reason.BODY_TRUNCATED, Reason.PARSE_TRUNCATED, Reason.PARSE_TIMEOUT,
    Reason.PARSE_FAILED, Reason.SCRIPT_SHELL, Reason.LINK_COLLAPSE, Reason.UNSUPPORTED_TYPE, Reason.LINK_FOUND,
    Reason.LINK_FOUND_VIA_REDIRECT, Reason.LINK_ABSENT, Reason.REDIRECT_UNCHECKED,
})  # fmt: skip
_BLOCKED = frozenset({
    Reason.BLOCKED_NETWORK, Reason.SUPPRESSED, Reason.ROBOTS_DENIED, Reason.ROBOTS_UNREACHABLE,
    Reason.HTTP_401, Reason.HTTP_403, Reason.HTTP_429, Reason.CHALLENGE, Reason.CONSENT_WALL, Reason.LOGIN_REDIRECT,
})  # fmt: skip
_UNKNOWN = frozenset({
    Reason.ARTIFACT_UNAVAILABLE, Reason.ORIGIN_BACKOFF, Reason.WINDOW_BUDGET, Reason.STOPPED, Reason.NOT_FETCHED,
})  # fmt: skip

HEALTH_OF: dict[Reason, Health] = {
    reason: Health.OK
    if reason in _OK
    else Health.BLOCKED
    if reason in _BLOCKED
    else Health.UNKNOWN
    if reason in _UNKNOWN
    else Health.ERROR
    for reason in Reason
}
"""Fetch health by reason: ok = it answered as a page should; blocked = somebody said no; error = it is broken or gone
(404 and 410 too); unknown = it was not asked, or the answer is not at hand."""


def health_expr(reason: pl.Expr) -> pl.Expr:
    """`HEALTH_OF` over a column of reason codes."""
    return reason.replace_strict(
        {code.value: health.value for code, health in HEALTH_OF.items()},
        default=Health.ERROR.value,
        return_dtype=pl.String,
    )


def source_evidence(fetches: pa.Table, pages: pa.Table, prior: pl.DataFrame | None = None) -> pl.DataFrame:
    """One row per source that has a fetch outcome: what its check can prove.

    `fetches` and `pages` are `PAGE_FETCHES` and `PAGE_MANIFESTS` rows (of several outcomes of a source the standing one
    is taken, see `transforms.fetches`); `prior` has `source_url_id` and `transforms.collapse.PRIOR_COLUMNS`.

    Columns besides those of the fetch and the page that an observation shows:
    `can_find` (its links are evidence of presence), `absent` (evidence when no link matches: missing | none),
    `absent_reason`, `is_complete`, `health`, `manifest_id`, `page_link_count`, `page_text_bytes`.
    """
    fetch = frame_of(latest_fetches(fetches)).select(
        "source_url_id",
        "fetch_job_id",
        fetch_reason="reason",
        observed_at="fetched_at",
        # A 304 says that the stored answer still stands, and that was a 200.
        source_http_status=pl.when(pl.col("reason") == Reason.NOT_MODIFIED.value)
        .then(pl.lit(200, pl.UInt16))
        .otherwise("http_status"),
        source_final_url="final_url",
        source_is_redirected="is_redirected",
        response_time_ms="elapsed_ms",
        content_hash="content_hash",
        object_key="object_key",
        retry_after_s="retry_after_s",
    )
    page = (
        frame_of(pages)
        .select(
            "source_url_id",
            "manifest_id",
            "parser_version",
            "is_truncated",
            "is_script_shell",
            "challenge",
            content_hash="content_hash",
            page_reason="reason",
            page_title="title",
            html_lang="language",
            source_robots_indexable="robots_indexable",
            source_canonical_url=pl.coalesce(
                pl.col("canonical_header").list.first(), pl.col("canonical_html").list.first()
            ),
            page_link_count="link_count",
            page_text_bytes="text_bytes",
        )
        .unique("source_url_id", keep="last", maintain_order=True)
    )
    prior = _NOTHING_PRIOR if prior is None else prior
    # A manifest of another body than the one this outcome names proves nothing about it.
    joined = fetch.join(page, on=["source_url_id", "content_hash"], how="left", maintain_order="left").join(
        prior.select("source_url_id", *collapse.PRIOR_COLUMNS).unique("source_url_id"),
        on="source_url_id",
        how="left",
        maintain_order="left",
    )
    reason, page_reason = pl.col("fetch_reason"), pl.col("page_reason")
    readable = reason.is_in([r.value for r in READABLE])
    later = (reason == Reason.OK.value) & (pl.col("retry_after_s") > 0)
    sound = [Reason.OK.value, Reason.PARSE_TRUNCATED.value]
    joined = joined.with_columns(
        can_find=readable & pl.col("manifest_id").is_not_null(),
        absent_reason=pl.when(~readable)
        .then(reason)
        .when(pl.col("manifest_id").is_null())
        .then(pl.lit(Reason.ARTIFACT_UNAVAILABLE.value))
        .when(pl.col("challenge").is_not_null() & page_reason.is_in(sound))
        .then(pl.lit(Reason.CHALLENGE.value))
        .when(~page_reason.is_in(sound))
        .then(page_reason)
        .when(pl.col("is_script_shell"))
        .then(pl.lit(Reason.SCRIPT_SHELL.value))
        .when(reason.is_in([r.value for r in FOUND_ONLY]))
        .then(reason)
        .when(pl.col("is_truncated") | (page_reason == Reason.PARSE_TRUNCATED.value))
        .then(pl.lit(Reason.PARSE_TRUNCATED.value))
        .when(later.fill_null(value=False))
        .then(pl.lit(Reason.MAINTENANCE.value))
        .when(collapse.is_held())
        .then(pl.lit(Reason.LINK_COLLAPSE.value))
        .otherwise(pl.lit(Reason.LINK_ABSENT.value)),
    )
    return joined.with_columns(
        is_complete=pl.col("absent_reason") == Reason.LINK_ABSENT.value,
        is_missing=pl.col("absent_reason").is_in([Reason.LINK_ABSENT.value, *(r.value for r in SOURCE_GONE)]),
        health=health_expr(pl.col("absent_reason")),
    )


_NOTHING_PRIOR = pl.DataFrame(
    schema={
        "source_url_id": pl.UInt64,
        "prior_link_count": pl.UInt32,
        "prior_text_bytes": pl.UInt32,
        "collapsed_looks": pl.UInt16,
        "collapsed_since": pl.Datetime("us", "UTC"),
    }
)


def page_looks(evidence: pl.DataFrame) -> pl.DataFrame:
    """What each look at a complete page leaves for the next one: `source_url_id`, `fetch_job_id` and
    `transforms.collapse.PRIOR_COLUMNS`. `evidence` is `source_evidence`; a page that proves nothing leaves no trace."""
    looked = [Reason.LINK_ABSENT.value, Reason.LINK_COLLAPSE.value]
    return evidence.filter(pl.col("absent_reason").is_in(looked)).select(
        "source_url_id", "fetch_job_id", *collapse.remembered()
    )
