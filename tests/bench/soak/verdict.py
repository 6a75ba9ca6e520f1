"""What a soak must have kept, read back from the stores and from what the web saw. Here: the judgement, as figures. Not
here: faults, printing.

A gap is judged where the host's owner would: at the server. Between the sending and the server's clock lie two busy
processes on shared cores, so arrivals jitter: an arrival may be late, and then the next one seems early. So crawlers note
when each request went out. A gap counts as violated when it is short at the server (below `KEEP_APART`) and the two
requests were not sent a gap apart; what is short at the server alone is counted beside it, and the distribution is shown.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any
from urllib.parse import urlsplit

import polars as pl
import pyarrow as pa

from assets.platform import Platform
from tests.bench.soak.scene import Scene, shard_of_host
from tests.bench.soak.web import Arrival, names_itself
from transforms.errors import PermanentError
from transforms.fetches import latest_fetches
from transforms.reasons import Outcome
from transforms.schemas import DUE_SOURCES, PAGE_FETCHES
from transforms.windows import Window

KEEP_APART = 0.8
AFTER_S = 0.05
"""A request that arrives so much later than its page's outcome was decided came after it, not before."""

_CLOCK_S = 0.02
"""A request may be noted as sent so much after the server has seen it."""

JOBS = """
SELECT j.id, j.source_url_id, u.normalized_url, j.validation_window, j.status, j.outcome, j.fetched_at, j.available_at
FROM page_fetch_jobs AS j JOIN urls AS u ON u.id = j.source_url_id
ORDER BY j.id
"""
_TIME = pa.timestamp("us", "UTC")
_JOBS = pa.schema([
    ("job", pa.uint64()), ("source_url_id", pa.uint64()), ("url", pa.string()), ("window", _TIME),
    ("status", pa.string()), ("outcome", pa.string()), ("fetched_at", _TIME), ("begun_at", _TIME),
])  # fmt: skip


@dataclass(frozen=True, slots=True)
class Fault:
    """Something that was done to the crawler, for finding out what a short gap has to do with."""

    at: float
    kind: str
    shard: int | None = None


@dataclass
class Verdict:
    """`broken` names every promise that was not kept, with how often; empty: all of them were."""

    broken: dict[str, int] = field(default_factory=dict)
    figures: dict[str, Any] = field(default_factory=dict)
    examples: list[str] = field(default_factory=list)

    def promise(self, name: str, violations: int) -> None:
        self.figures[name] = violations
        if violations:
            self.broken[name] = violations


def read_sends(scene: Scene) -> dict[str, list[float]]:
    """When requests went out, by origin, over all crawlers."""
    sends: dict[str, list[float]] = defaultdict(list)
    for log in scene.path.glob("sends-*.log"):
        for line in log.read_text().splitlines():
            at, origin = line.split(" ")
            sends[origin].append(float(at))
    return {origin: sorted(times) for origin, times in sends.items()}


def judge(
    scene: Scene, platform: Platform, arrivals: Mapping[str, Sequence[Arrival]], faults: Sequence[Fault]
) -> Verdict:
    verdict = Verdict()
    with platform.ledger.transaction() as tx:
        jobs = pl.DataFrame(pl.from_arrow(tx.table(JOBS, _JOBS)))
        usage = tx.row("SELECT SUM(page_checks_completed) FROM tenant_crawl_usage_daily")
        leases = tx.rows("SELECT name, owner FROM shard_leases WHERE owner IS NOT NULL")
        pending = tx.row("SELECT COUNT(*) FROM page_content_snapshots WHERE status = 'pending'")
    if jobs.is_empty():
        verdict.promise("windows without anything claimed", 1)
        return verdict
    windows = [Window(start, platform.window_length) for start in jobs["window"].unique().sort()]
    due = pl.concat([_with_window(platform.datasets.read(DUE_SOURCES, w), w) for w in windows])
    parts = [(w, platform.datasets.read(PAGE_FETCHES, w)) for w in windows]
    rows = pl.concat([_with_window(table, w) for w, table in parts])
    latest = pl.concat([_with_window(latest_fetches(table), w) for w, table in parts])
    nothing_lost(verdict, jobs, due, latest)
    settled = rows.filter(pl.col("outcome") != Outcome.DEFERRED.value)
    per_job = settled.group_by("window", "source_url_id").len()
    verdict.promise("pages committed twice (Parquet)", per_job.filter(pl.col("len") > 1).height)
    done = jobs.filter(pl.col("outcome").is_not_null() & (pl.col("outcome") != Outcome.DEFERRED.value))
    counted = int(usage[0] or 0) if usage else 0
    verdict.promise("page checks counted twice or not at all (ledger)", abs(counted - done.height))
    nothing_asked_again(verdict, jobs, arrivals)
    no_gap_violated(verdict, scene, arrivals, faults)
    bodies_are_there(verdict, platform, latest)
    verdict.promise("leases still held", len(leases))
    internal = rows.filter(pl.col("detail").str.starts_with("Internal error").fill_null(False)).height
    verdict.promise("internal errors of the crawler", internal)
    verdict.figures |= {
        "windows": len(windows),
        "sources": scene.hosts * scene.pages,
        "due (source x window)": jobs.height,
        "Parquet rows": rows.height,
        "deferred rows, asked again later": rows.height - settled.height,
        "snapshots noted but never committed (harmless)": int(pending[0]) if pending else 0,
        "outcomes": _counts(latest, "outcome"),
        "reasons": _counts(latest, "reason"),
    }
    return verdict


def _with_window(table: pa.Table, window: Window) -> pl.DataFrame:
    return pl.DataFrame(pl.from_arrow(table)).with_columns(window=pl.lit(window.start).cast(pl.Datetime("us", "UTC")))


def _counts(rows: pl.DataFrame, column: str) -> dict[str, int]:
    return dict(Counter(rows[column].to_list()).most_common())


def nothing_lost(verdict: Verdict, jobs: pl.DataFrame, due: pl.DataFrame, latest: pl.DataFrame) -> None:
    """Each due source has one outcome, and the ledger and Parquet tell the same."""
    key = ["window", "source_url_id"]
    both = jobs.join(latest.select(*key, "outcome", "fetched_at"), on=key, how="left", suffix="_parquet")
    lost = both.filter(pl.col("outcome").is_null() | pl.col("outcome_parquet").is_null())
    differ = both.filter(
        pl.col("outcome").is_not_null()
        & pl.col("outcome_parquet").is_not_null()
        & ((pl.col("outcome") != pl.col("outcome_parquet")) | (pl.col("fetched_at") != pl.col("fetched_at_parquet")))
    )
    unclaimed = jobs.join(due, on=key, how="anti").height + due.join(jobs, on=key, how="anti").height
    verdict.promise("due sources without an outcome", lost.height)
    verdict.promise("outcomes that differ between ledger and Parquet", differ.height)
    verdict.promise("due sources in only one of ledger and Parquet", unclaimed)
    verdict.figures["left as coverage debt of a past window"] = jobs.filter(
        pl.col("outcome") == Outcome.DEFERRED.value
    ).height
    verdict.examples += [f"lost: {row}" for row in lost.head(3).iter_rows()]
    verdict.examples += [f"differs: {row}" for row in differ.head(3).iter_rows()]


def nothing_asked_again(verdict: Verdict, jobs: pl.DataFrame, arrivals: Mapping[str, Sequence[Arrival]]) -> None:
    """Every request of a page lies between the claim and the outcome of one of its jobs."""
    spans: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for url, begun, ended, outcome in jobs.select("url", "begun_at", "fetched_at", "outcome").iter_rows():
        is_open = outcome is None or outcome == Outcome.DEFERRED.value
        spans[url].append((begun.timestamp(), float("inf") if is_open else ended.timestamp()))
    asked = again = 0
    for origin, seen in arrivals.items():
        for arrival in seen:
            known = spans.get(origin + arrival.path.split("?")[0])
            if known is None:
                continue
            asked += 1
            if not any(begun <= arrival.at <= ended + AFTER_S for begun, ended in known):
                again += 1
                if again <= 3:
                    verdict.examples.append(f"asked again: {origin}{arrival.path} at {arrival.at}, jobs {known}")
    verdict.promise("requests of a page after its outcome was committed", again)
    verdict.figures["page requests (retries and hops included)"] = asked
    verdict.figures["requests in all"] = sum(len(seen) for seen in arrivals.values())


def no_gap_violated(
    verdict: Verdict, scene: Scene, arrivals: Mapping[str, Sequence[Arrival]], faults: Sequence[Fault]
) -> None:
    gaps: list[float] = []
    causes: Counter[str] = Counter()
    jitter = 0
    sends = read_sends(scene)
    fault_times = [fault.at for fault in faults]
    for origin, seen in arrivals.items():
        ordered = sorted(seen, key=lambda arrival: arrival.at)
        for first, second in pairwise(ordered):
            gap = second.at - first.at
            gaps.append(gap)
            if gap >= scene.gap_s * KEEP_APART:
                continue
            if was_sent_apart(sends.get(origin, []), first.at, second.at, scene.gap_s):
                jitter += 1
                continue
            following = [arrival for arrival in ordered if second.at <= arrival.at <= second.at + 5.0]
            near = faults[bisect_left(fault_times, first.at - 8.0) : bisect_left(fault_times, second.at)]
            cause = _cause(scene, origin, [first, *following], near)
            causes[cause] += 1
            if causes[cause] <= 2:
                paths = f"{first.path} then {second.path}"
                verdict.examples.append(f"gap {gap:.3f} s at {origin} ({cause}), {first.at:.3f}: {paths}")
    verdict.promise(f"gaps below {KEEP_APART:.0%} of {scene.gap_s:g} s at the server", sum(causes.values()))
    verdict.figures["  by what went before"] = dict(causes)
    verdict.figures["  besides, short at the server but sent a gap apart (jitter)"] = jitter
    verdict.figures["gaps judged"] = len(gaps)
    verdict.figures["gap at the server, seconds"] = _distribution(gaps)
    verdict.figures["gap as sent, seconds"] = _distribution(
        [later - earlier for times in sends.values() for earlier, later in pairwise(times)]
    )


def was_sent_apart(sends: Sequence[float], first: float, second: float, gap_s: float) -> bool:
    """Were the requests that arrived at `first` and `second` sent a gap apart? Not known counts as no."""
    number = bisect_right(sends, second + _CLOCK_S) - 1
    return number > 0 and sends[number - 1] <= first + _CLOCK_S and sends[number] - sends[number - 1] >= 0.99 * gap_s


def _distribution(gaps: Sequence[float]) -> dict[str, float]:
    if not gaps:
        return {}
    values = pl.Series(gaps)
    shares = (("0.01 %", 0.0001), ("0.1 %", 0.001), ("1 %", 0.01), ("10 %", 0.1), ("50 %", 0.5))
    return {"least": round(min(gaps), 4)} | {
        name: round(float(values.quantile(share, "lower") or 0.0), 4) for name, share in shares
    }


def _cause(scene: Scene, origin: str, requests: Sequence[Arrival], near: Sequence[Fault]) -> str:
    """What a short gap most likely has to do with: for whoever looks for the bug. `requests`: the two, and what came in
    the next seconds (a crawler of another shard asks for robots.txt before it follows its hop)."""
    shard = shard_of_host(origin.split("://")[1], scene.shards)
    is_robots = requests[1].path == "/robots.txt"
    for arrival in requests if is_robots else requests[:2]:
        if arrival.path.startswith("/hop/from/"):
            other = shard_of_host(arrival.path.split("/")[3].split("?")[0], scene.shards)
            if other != shard:
                return "a hop from another shard"
    kinds = {fault.kind for fault in near if fault.shard in (None, shard)}
    return f"after {', '.join(sorted(kinds))}" if kinds else "nothing special"


def bodies_are_there(verdict: Verdict, platform: Platform, latest: pl.DataFrame) -> None:
    """Every body that an outcome names is in the store, hashes to its name, and is of the page it is said to be of."""
    wanted: dict[str, set[str]] = defaultdict(set)
    for key, url in latest.filter(pl.col("object_key").is_not_null()).select("object_key", "final_url").iter_rows():
        parts = urlsplit(url)
        wanted[key].add(f"{parts.netloc}{parts.path}{'?' + parts.query if parts.query else ''}")
    absent = wrong = 0
    for key, body in platform.snapshots.get_many(wanted):
        if isinstance(body, PermanentError):
            absent += 1
        else:
            wrong += sum(1 for name in wanted[key] if not names_itself(body, name))
    verdict.promise("bodies missing or damaged in the store", absent)
    verdict.promise("bodies of another page than their row says", wrong)
    verdict.figures["distinct bodies read back"] = len(wanted)
