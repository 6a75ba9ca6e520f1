"""What a tolerant comparison of two URL identities looks at, and what it had to tolerate. Here: string work, once per
distinct URL. Not here: who is compared with whom (`rules`, `edges`).

Unless a project says strict, these do not count: `http` or `https` (`scheme`), a leading `www.` of the host (`www`),
click-tracking parameters (`tracking`, the list is `transforms.targets.TRACKING_PARAMETERS`), and between two whole URLs
one trailing slash of the path (`trailing_slash`). Everything else counts: port, path case, order of parameters.
A `www.` is only leading when a name with a dot is left without it (`www.com` is a name of its own).
"""

from __future__ import annotations

import polars as pl

from transforms.targets import TRACKING_PARAMETERS

SCHEME, WWW, TRACKING, SLASH, REDIRECT = 1, 2, 4, 8, 16
"""Bits of a tolerance mask; 0 means that nothing had to be tolerated."""

_NAMES = {SCHEME: "scheme", WWW: "www", TRACKING: "tracking", SLASH: "trailing_slash", REDIRECT: "redirect"}

_TRACKING_NAME = rf"(?i)^(?:{TRACKING_PARAMETERS})(?:=|$)"
_HAS_TRACKING = rf"(?i)(?:^|&)(?:{TRACKING_PARAMETERS})(?:=|&|$)"


def url_parts(urls: pl.DataFrame) -> pl.DataFrame:
    """`urls` (a column `url` of identities: http or https, and always a path) with the parts that comparisons use:

    `scheme`, `host` (without port), `is_www`, `rest` (without scheme and `www.`), `tracking` (what click-tracking there
    was, joined; empty when none), `has_slash`, `prefix_key` (`rest` without tracking), `exact_key` (and without one
    trailing slash of the path).
    """
    cut = pl.col("url").str.splitn("://", 2)
    frame = urls.with_columns(scheme=cut.struct.field("field_0"), _after=cut.struct.field("field_1"))
    cut = pl.col("_after").str.splitn("?", 2)
    frame = frame.with_columns(_path=cut.struct.field("field_0"), _query=cut.struct.field("field_1")).with_columns(
        _authority=pl.col("_path").str.splitn("/", 2).struct.field("field_0")
    )
    is_www = pl.col("_authority").str.contains(r"^www\.[^.:]+\.[^:]")
    frame = frame.with_columns(
        host=_host(pl.col("_authority")),
        is_www=is_www,
        rest=pl.when(is_www).then(pl.col("_after").str.slice(4)).otherwise("_after"),
        _path=pl.when(is_www).then(pl.col("_path").str.slice(4)).otherwise("_path"),
    ).drop("_after", "_authority")
    tracked = frame.filter(pl.col("_query").str.contains(_HAS_TRACKING)).select("url", "_query")
    if tracked.height:
        pairs = pl.col("_query").str.split("&")
        is_tracking = pl.element().str.contains(_TRACKING_NAME)
        tracked = tracked.unique("url").select(
            "url",
            _kept=pairs.list.eval(pl.element().filter(~is_tracking)).list.join("&"),
            tracking=pairs.list.eval(pl.element().filter(is_tracking)).list.join("&"),
        )
        frame = (
            frame.join(tracked, on="url", how="left", maintain_order="left")
            .with_columns(
                # A query that held nothing else goes with its question mark.
                _query=pl.when(pl.col("tracking").is_null()).then("_query").when(pl.col("_kept") != "").then("_kept"),
                tracking=pl.col("tracking").fill_null(""),
            )
            .drop("_kept")
        )
    else:
        frame = frame.with_columns(tracking=pl.lit(""))
    query = pl.when(pl.col("_query").is_null()).then(pl.lit("")).otherwise("?" + pl.col("_query"))
    return frame.with_columns(
        has_slash=pl.col("_path").str.ends_with("/"),
        prefix_key=pl.col("_path") + query,
        exact_key=pl.col("_path").str.strip_suffix("/") + query,
    ).drop("_path", "_query")


def numbered_parts(urls: pl.Series) -> pl.DataFrame:
    """`url_parts` of URLs with their number `url_id` (their row), `kid` (a hash of `exact_key`: equal keys have equal
    ones, and few others do) and `host_id`, a number of the host."""
    parts = url_parts(pl.DataFrame({"url": urls}).with_row_index("url_id")).with_columns(kid=pl.col("exact_key").hash())
    hosts = parts.select("host").unique().with_row_index("host_id")
    return parts.join(hosts, on="host", how="left", maintain_order="left", nulls_equal=True)


def host_of(url: pl.Expr) -> pl.Expr:
    """The host of an identity, without port and brackets."""
    after = url.str.splitn("://", 2).struct.field("field_1")
    return _host(after.str.splitn("/", 2).struct.field("field_0"))


def _host(authority: pl.Expr) -> pl.Expr:
    return authority.str.replace(r":\d+$", "").str.strip_chars("[]")


def differences(left: str, right: str, *, exact: bool) -> pl.Expr:
    """Mask of what must be tolerated for the URL with parts `<left>…` to equal the one with parts `<right>…`.

    Both sides' `exact_key` (or prefix) are taken to be equal; `exact` looks at tracking and the slash too.
    """

    def differ(part: str, bit: int) -> pl.Expr:
        return (
            pl.when(pl.col(f"{left}{part}") != pl.col(f"{right}{part}"))
            .then(pl.lit(bit, pl.UInt8))
            .otherwise(pl.lit(0, pl.UInt8))
        )

    mask = differ("scheme", SCHEME) | differ("is_www", WWW)
    return mask | differ("tracking", TRACKING) | differ("has_slash", SLASH) if exact else mask


def tolerated_names(mask: pl.Expr) -> pl.Expr:
    """A mask as the list of names that observations show, in the order of the bits."""
    known = [[name for bit, name in _NAMES.items() if value & bit] for value in range(32)]
    return mask.replace_strict(list(range(32)), known, return_dtype=pl.List(pl.String))


def bare_host(host: pl.Expr) -> pl.Expr:
    """A host without a leading `www.`, where a name with a dot is left."""
    return host.str.replace(r"^www\.([^.]+\..)", "$1")
