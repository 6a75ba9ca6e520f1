"""What each row is worth: an edge to register, a duplicate, or invalid with a reason. Here: the judgement, batch-wise.
Not here: cells from lines (`transforms.imports.records`), which edges the project had before (`warehouse.imports.run`).

What a provider says about a link (anchor, nofollow, lost) is not evidence and is not read.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b

import polars as pl

from transforms.imports.problems import RowReason, RowResult
from transforms.imports.records import Cells
from transforms.imports.seen import SeenEdges
from transforms.targets import Target, covering
from transforms.urls import CURRENT, Normalization, UrlRefusal

MAX_CELL_CHARS = 16_384
"""A longer cell cannot become an identity of 2,048 characters in any way that matters; it is not even parsed."""
SHOWN_CHARS = 500
"""How much of a raw cell is kept for a person to see."""

_HTTP = re.compile(r"https?:", re.IGNORECASE)
_TWO_URLS = re.compile(r"\shttps?://", re.IGNORECASE)
_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*:(?!\d)", re.IGNORECASE)
_BARE = re.compile(r"(?:[^\W_](?:[\w-]*[^\W_])?\.)+[^\W\d_][\w-]*\.?(?::\d{1,5})?(?:[/?#]\S*)?\Z")
_PASSWORD = re.compile(r"(//[^/?#@\s:]*:)[^/?#@\s]*@")
_BLANK = " \t\r\n\f\v\xa0\ufeff"

REJECT_SCHEMA = pl.Schema({
    "line": pl.UInt32,  # line on which the row starts, from 1
    "result": pl.String,  # duplicate | invalid
    "reason": pl.String,  # RowReason, or source_/target_ and a reason of URL identity
    "detail": pl.String,  # for a person: "first on line 7"
    "source": pl.String,  # as written, cut to SHOWN_CHARS
    "target": pl.String,
})  # fmt: skip
"""Columns of rows that were not accepted."""

URL_FIELDS = ("identity", "url_hash", "scheme", "host", "path", "query", "registrable_domain", "public_suffix", "site")
"""What of `identify_many` an edge keeps for each end, prefixed `source_` and `target_`."""


@dataclass(frozen=True)
class Plan:
    """What rows are judged against."""

    targets: tuple[Target, ...]
    """Targets in force; a row outside them is out of scope unless `open_scope`."""
    open_scope: bool
    """No target was given: the file's own target domains become the project's targets (`max_targets` at most)."""
    has_target_column: bool
    max_targets: int
    rules: Normalization = CURRENT
    """The rules of URL identity."""


@dataclass
class Judged:
    """One batch of rows, each in exactly one of the two frames."""

    edges: pl.DataFrame
    """Rows that name an edge no earlier row named: line, source, target (as written), any_target, target_position (in
    `Plan.targets`, null in an open scope), and `URL_FIELDS` of both ends."""
    rejected: pl.DataFrame
    """`REJECT_SCHEMA`."""
    assumed_https: int = 0
    """Cells without a scheme that were read as https."""

    @property
    def rows(self) -> int:
        return self.edges.height + self.rejected.height


class RowJudge:
    """Judges batches of one file in order. Memory: about 20 bytes an edge seen (`SeenEdges`)."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._seen = SeenEdges()
        self._domains = {target.host for target in plan.targets}
        if not plan.has_target_column:
            first = plan.targets[0]
            self._landing = first.landing_url
            self._any_target = len(plan.targets) > 1 or not first.is_one_url

    def judge(self, cells: Cells) -> Judged:
        """The verdict on rows of the file, in file order."""
        frame, assumed = self._identified(cells)
        invalid = frame.filter(pl.col("reason").is_not_null()).with_columns(
            result=pl.lit(RowResult.INVALID.value), detail=pl.lit(None, pl.String)
        )
        edges = self._in_scope(frame.filter(pl.col("reason").is_null()).drop("reason"))
        outside = edges.filter(pl.col("reason").is_not_null()).with_columns(
            result=pl.lit(RowResult.INVALID.value), detail=pl.lit(None, pl.String)
        )
        edges = edges.filter(pl.col("reason").is_null()).drop("reason")
        first = self._seen.add(
            b"".join(
                blake2b(source + target, digest_size=16).digest()
                for source, target in zip(edges["source_url_hash"], edges["target_url_hash"], strict=True)
            ),
            edges["line"].to_list(),
        )
        edges = edges.with_columns(first=pl.Series(first, dtype=pl.UInt32))
        doubles = edges.filter(pl.col("first") > 0).with_columns(
            result=pl.lit(RowResult.DUPLICATE.value),
            reason=pl.lit(RowReason.REPEATED_IN_FILE.value),
            detail=pl.format("first on line {}", pl.col("first")),
        )
        rejected = pl.concat(
            [part.select(REJECT_SCHEMA.keys()).cast(REJECT_SCHEMA) for part in (invalid, outside, doubles)]
        ).sort("line")
        return Judged(edges.filter(pl.col("first") == 0).drop("first"), rejected, assumed)

    def _identified(self, cells: Cells) -> tuple[pl.DataFrame, int]:
        """A row per cell row: line, source, target, reason, any_target and the identities of both ends."""
        rules = self._plan.rules
        source = _Ends("source", cells.source, rules)
        if self._plan.has_target_column:
            target = _Ends("target", cells.target, rules)
            any_target = pl.lit(False)
        else:
            target = _Ends("target", [self._landing] * len(cells), rules)
            any_target = pl.lit(self._any_target)
        # A ragged row is as good as any other when both cells hold URLs by themselves.
        broken = [
            None if reason == RowReason.RAGGED_ROW and source.spelled(i) and target.spelled(i) else reason
            for i, reason in enumerate(cells.reason)
        ]
        frame = pl.DataFrame(
            {"line": pl.Series(cells.line, dtype=pl.UInt32), "broken": pl.Series(broken, dtype=pl.String)}
        ).hstack(source.frame()).hstack(target.frame())  # fmt: skip
        if not self._plan.has_target_column:
            frame = frame.with_columns(target=pl.lit(""))
        frame = frame.with_columns(
            reason=pl.coalesce("broken", "source_problem", "target_problem"), any_target=any_target
        ).drop("broken", "source_problem", "target_problem")
        return frame, source.assumed + target.assumed

    def _in_scope(self, edges: pl.DataFrame) -> pl.DataFrame:
        """Adds target_position and reason (target_out_of_scope, target_limit, or null)."""
        plan = self._plan
        ends = edges.select(identity="target_identity", host="target_host", site="target_site")
        position = covering(plan.targets, ends).alias("target_position")
        if not plan.open_scope:
            missing = pl.when(pl.col("target_position").is_null()).then(pl.lit(RowReason.TARGET_OUT_OF_SCOPE.value))
            return edges.with_columns(position).with_columns(reason=missing)
        uncovered = position.is_null()
        for site in ends.filter(uncovered)["site"].unique(maintain_order=True):
            if len(self._domains) < plan.max_targets:
                self._domains.add(site)
        over = uncovered & ~ends["site"].is_in(list(self._domains))
        return edges.with_columns(
            position,
            reason=pl.select(pl.when(over).then(pl.lit(RowReason.TARGET_LIMIT.value)).otherwise(None))
            .to_series()
            .cast(pl.String),
        )


class _Ends:
    """One end of all rows of a batch: cells cleaned and identified once per distinct spelling."""

    def __init__(self, end: str, raws: list[str], rules: Normalization) -> None:
        self._end, self._raws = end, raws
        self.assumed = 0
        index: dict[str, int] = {}
        self._take = [index.setdefault(raw, len(index)) for raw in raws]
        self._cleaned = [clean(raw) for raw in index]
        table = rules.identify([url if url is not None else "" for url, _ in self._cleaned])
        self._distinct = pl.DataFrame(pl.from_arrow(table.select([*URL_FIELDS, "reason", "flags"])))
        self._shown = [shown(raw) for raw in index]
        self._assumed = [
            reason is None and not _HTTP.match(raw.lstrip(_BLANK))
            for raw, (_, reason) in zip(index, self._cleaned, strict=True)
        ]

    def spelled(self, row: int) -> bool:
        """Whether the cell holds an absolute http(s) URL by itself."""
        raw = self._raws[row]
        return _HTTP.match(raw.lstrip(_BLANK)) is not None and self._cleaned[self._take[row]][1] is None

    def frame(self) -> pl.DataFrame:
        """Columns <end> (as written), <end>_problem, and <end>_<field> for each of `URL_FIELDS`; a row per cell."""
        end = self._end
        own = pl.Series("own", [reason for _, reason in self._cleaned], dtype=pl.String)
        # An identity that names a user or password is no public page, and a secret has no place in a ledger.
        secret = pl.when(pl.col("flags").list.contains("credentials")).then(pl.lit("credentials"))
        problem = pl.concat_str(pl.lit(f"{end}_"), pl.coalesce("own", "reason", secret))
        distinct = self._distinct.with_columns(own, pl.Series("shown", self._shown, dtype=pl.String)).select(
            pl.col("shown").alias(end),
            problem.alias(f"{end}_problem"),
            *(pl.col(name).alias(f"{end}_{name}") for name in URL_FIELDS),
        )
        take = pl.Series(self._take, dtype=pl.UInt32)
        if any(self._assumed):
            self.assumed = int(pl.Series(self._assumed, dtype=pl.Boolean).gather(take).sum())
        return distinct[take]


def clean(raw: str) -> tuple[str | None, str | None]:
    """A cell as a URL to identify, or None and why not (a `RowReason` without its `source_` or `target_`).

    `example.com/page` is read as https: lists without schemes are common, and the check will tell.
    """
    text = raw.strip(_BLANK)
    if not text:
        return None, "missing"
    if len(text) > MAX_CELL_CHARS:
        return None, UrlRefusal.TOO_LONG.value
    if not text.isascii() or not text.isprintable():
        for char in text:
            if "\ud800" <= char <= "\udfff" or char == "\ufffd":
                return None, "bad_encoding"
            if char < " " or "\x7f" <= char <= "\x9f":
                return None, "control_character"
    if _HTTP.match(text):
        # A space may stand in a URL; a second URL after it is a list that nobody split.
        return (None, "not_a_url") if " " in text and _TWO_URLS.search(text) else (text, None)
    if _BARE.match(text):
        return f"https://{text}", None
    if text.startswith("//"):
        return f"https:{text}", None
    return (text, None) if _SCHEME.match(text) and " " not in text else (None, "not_a_url")


def shown(raw: str) -> str:
    """A cell as a person may see it: cut, passwords out, undecodable bytes and control characters replaced."""
    text = _PASSWORD.sub(r"\1…@", raw[:SHOWN_CHARS]) if "@" in raw else raw[:SHOWN_CHARS]
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        "\ufffd" if "\ud800" <= c <= "\udfff" or (c < " " and c != "\t") or "\x7f" <= c <= "\x9f" else c for c in text
    )


def new_domains(edges: pl.DataFrame, targets: Sequence[Target]) -> list[str]:
    """Sites of edges that no target covers yet (an open scope), each once, in the order of their first row."""
    known = {target.host for target in targets}
    fresh = edges.filter(pl.col("target_position").is_null())["target_site"].unique(maintain_order=True)
    return [site for site in fresh if site not in known]
