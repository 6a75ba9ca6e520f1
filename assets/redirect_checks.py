"""Stage `redirect_checks`, between `link_manifests` and `link_observations`: where do the pages' own redirectors lead? Asked
only for edges that no direct link stands for, politely, a few a page, and not again while an answer is believed."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import dagster as dg
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pads

import crawl
from assets import link_manifests, tables
from assets.link_manifests import READABLE_CODES
from assets.page_fetches import stopped_early
from assets.partition import WindowShard, owns, window_shards
from assets.platform import Platform
from crawl import parse_pool
from crawl.memory import MemorySink, MemorySnapshots
from crawl.parse_pool import ParseJob
from crawl.ports import FetchResult, FetchTask
from transforms import matching
from transforms import redirectors as rules_of
from transforms.arrays import frame_of
from transforms.collapse import PRIOR_COLUMNS
from transforms.evidence import source_evidence
from transforms.fetches import latest_fetches
from transforms.reasons import Evidence, Outcome, Reason
from transforms.redirectors import Candidate, Goal
from transforms.schemas import (
    DUE_SOURCES,
    EXPECTED_EDGES,
    LINK_MANIFESTS,
    LINK_REDIRECTS,
    PAGE_FETCHES,
    PAGE_MANIFESTS,
    TARGET_HEALTH,
    TARGET_RULES,
)
from transforms.urls import identify
from warehouse.datasets import BadDataset
from warehouse.objects import ObjectMissing

KEY = dg.AssetKey(["backlinks", "redirect_checks"])
REMEMBERED = timedelta(days=14)
"""Answers of earlier windows that are looked at: longer than any edge goes unchecked."""
STILL_TRUE = timedelta(hours=24)
"""A window that ended longer ago asks nobody any more: what a redirector does today says nothing about that day."""


def check(platform: Platform, at: WindowShard) -> pa.Table:
    """Check the redirectors that the window x shard needs and has no answer of. Returns its `LINK_REDIRECTS` rows."""
    wanted = candidates(platform, at)
    have = platform.datasets.read(LINK_REDIRECTS, at.window, at.shard)
    if not wanted.links and not have.num_rows:
        return have
    with platform.lease(f"shard:{at.shard}", wait_s=900.0) as lease:
        # Under the lease: what another run of the partition has just asked is not asked again.
        have = platform.datasets.read(LINK_REDIRECTS, at.window, at.shard)
        plan = Plan(platform, at, wanted, have)
        sink = MemorySink()
        done = None
        if plan.todo:
            done = crawl.run_batch(
                plan.tasks(), settings=platform.crawl, sink=sink, snapshots=MemorySnapshots(),
                origins=platform.origin_book(lease), clock=platform.clock, owns=owns(platform, at),
            )  # fmt: skip
        rows = LINK_REDIRECTS.table(plan.rows(sink.results))
        platform.datasets.write_part(LINK_REDIRECTS, at.window, at.shard, rows, "all")
        if done is not None:
            stopped_early(done, f"the redirect checks of {at.key}")
    return rows


@dataclass(frozen=True)
class Wanted:
    """What a window x shard would like to know."""

    links: list[Candidate]
    """Worth a request, the likeliest of each page first."""
    goals: dict[int, Goal]
    """By source."""
    live: set[int]
    """Edges that are live."""
    earlier: dict[str, dict[str, Any]]
    """The newest conclusive answer of earlier windows, by link."""


def candidates(platform: Platform, at: WindowShard) -> Wanted:
    """Redirectors of the partition's pages that may lead to what no direct link of theirs leads to."""
    store = platform.datasets
    expected = store.read(EXPECTED_EDGES, at.window, at.shard)
    pages = store.read(PAGE_MANIFESTS, at.window, at.shard)
    fetches = latest_fetches(store.read(PAGE_FETCHES, at.window, at.shard))
    due = store.read(DUE_SOURCES, at.window, at.shard, ["source_url_id", *PRIOR_COLUMNS])
    links = store.read(LINK_MANIFESTS, at.window, at.shard)
    rules = store.read(TARGET_RULES, at.window, at.shard)
    edges = frame_of(expected)
    readable = source_evidence(fetches, pages).filter("can_find").select("source_url_id", "manifest_id")
    homes = edges.select("source_url_id", site="source_registrable_domain").unique("source_url_id")
    documents = frame_of(pages.select(["source_url_id", "manifest_id", "document_url"])).join(
        readable, on=["source_url_id", "manifest_id"], how="semi"
    )
    hosts = pl.concat([edges["target_url"].str.extract(r"^[^:/?#]+://([^/?#:]*)", 1), frame_of(rules)["host"]])
    found = rules_of.own_redirectors(
        frame_of(links).join(readable, on=["source_url_id", "manifest_id"], how="semi"),
        documents.join(homes, on="source_url_id"),
        hosts,
    )
    if not found.height:
        return Wanted([], {}, set(), {})
    # Which edges have no direct link: said by the same matching that gives the evidence, for these few pages.
    here = found["source_url_id"].unique().to_arrow()
    observed = matching.match_window(
        window_start=at.window.start,
        fetches=_of(fetches, here),
        pages=_of(pages, here),
        links=_of(links, here),
        expected=_of(expected, here),
        rules=rules,
        target_health=TARGET_HEALTH.empty(),
        due=_of(due, here),
        discover=False,
    ).observations
    unproven = frame_of(
        observed.filter(pc.not_equal(observed["evidence"], Evidence.FOUND.value)).select(["backlink_id"])
    )
    open_edges = edges.join(unproven, on="backlink_id", how="semi")
    found = found.join(open_edges, on="source_url_id", how="semi", maintain_order="left")
    if not found.height:
        return Wanted([], {}, set(), {})
    earlier = _earlier(platform, at, found["identity"])
    proven = {link for link, row in earlier.items() if row["final_identity"]}
    before = {
        (source, link) for source, link in found.select("source_url_id", "identity").iter_rows() if link in proven
    }
    return Wanted(
        rules_of.candidates(found, open_edges, frame_of(rules), before),
        rules_of.goals(open_edges, frame_of(rules)),
        set(open_edges.filter("was_live")["backlink_id"].to_list()),
        earlier,
    )


def _earlier(platform: Platform, at: WindowShard, links: pl.Series) -> dict[str, dict[str, Any]]:
    """The newest conclusive answer of each link in the windows before this one."""
    only = pads.field("link_identity").isin(links.unique().to_arrow()) & pads.field("is_conclusive")
    keys = platform.datasets.keys_between(LINK_REDIRECTS, at.window.start - REMEMBERED, at.window.start, at.shard)
    newest: dict[str, dict[str, Any]] = {}
    for key in keys:
        try:
            rows = platform.datasets.read_keys(LINK_REDIRECTS, [key], filters=only)
        except (BadDataset, ObjectMissing):
            continue  # of another version, torn, or gone: asked again
        for row in rows.to_pylist():
            known = newest.get(row["link_identity"])
            if known is None or known["checked_at"] <= row["checked_at"]:
                newest[row["link_identity"]] = row
    return newest


class Plan:
    """What is kept, what is believed, what is asked, and what must wait."""

    def __init__(self, platform: Platform, at: WindowShard, wanted: Wanted, have: pa.Table) -> None:
        now = platform.clock.now()
        self._now, self._goals, self._live = now, wanted.goals, wanted.live
        self._since = now - timedelta(seconds=platform.crawl.redirect_ttl_s)
        is_open = now < at.window.end
        self._rows: list[dict[str, Any]] = []
        self.todo: dict[str, list[Candidate]] = defaultdict(list)
        links = {(each.source_url_id, each.link_identity): each for each in wanted.links}
        # While the window is open, what was put off is asked again and what is on no page any more goes; afterwards all stays.
        kept = {
            key: row
            for row in have.to_pylist()
            if (key := (row["source_url_id"], row["link_identity"]))
            and (not is_open or (key in links and row["outcome"] != Outcome.DEFERRED.value))
        }
        self._rows += kept.values()
        asked = Counter(source for (source, _), row in kept.items() if not row["is_reused"])
        may_ask = now < at.window.end + STILL_TRUE
        for each in (each for key, each in links.items() if key not in kept):
            known = wanted.earlier.get(each.link_identity)
            if known is not None and self._is_believed(each, known):
                self._rows.append({**known, **_about(each), "is_reused": True})
            elif each.link_identity in self.todo or (
                may_ask
                and asked[each.source_url_id] < rules_of.MAX_PER_PAGE
                and len(self.todo) < rules_of.MAX_PER_BATCH
            ):
                self.todo[each.link_identity].append(each)
                asked[each.source_url_id] += 1
            elif each.waiting_edges:
                self._rows.append(self._put_off(each, Reason.WINDOW_BUDGET if may_ask else Reason.NOT_FETCHED))

    def _is_believed(self, each: Candidate, known: dict[str, Any]) -> bool:
        """Is an earlier answer still good? A miss of a live edge always stands on a request of this very window."""
        if known["checked_at"] < self._since:
            return False
        if known["final_identity"] is not None and self._goals[each.source_url_id](known["final_identity"]):
            return True
        return known["final_identity"] is None and not self._live.intersection(each.waiting_edges)

    def _put_off(self, each: Candidate, reason: Reason) -> dict[str, Any]:
        return {
            **_about(each), "outcome": Outcome.DEFERRED.value, "reason": reason.value, "is_conclusive": False, "hops": [],
            "detail": "Not asked: the page has more redirectors than one window asks."
            if reason is Reason.WINDOW_BUDGET else "Not asked: the window is long over.",
            "checked_at": self._now, "is_reused": False,
        }  # fmt: skip

    def tasks(self) -> list[FetchTask]:
        """One request for each redirector, on however many pages it stands."""
        return [
            FetchTask(key=number, url=link, goal=Goal.of_any(self._goals[each.source_url_id] for each in group))
            for number, (link, group) in enumerate(self.todo.items())
        ]

    def rows(self, results: Sequence[FetchResult]) -> list[dict[str, Any]]:
        """All rows of the partition, with the answers."""
        refreshes = _refreshes([result for result in results if result.body is not None])
        groups = list(self.todo.values())
        answered = list(self._rows)
        for result in results:
            reached = [result.final_url, *refreshes.get(result.task.key, ())]
            for each in groups[result.task.key]:
                goal = self._goals[each.source_url_id]
                final = next((identify(url).identity for url in reached if url is not None and goal(url)), None)
                conclusive = final is not None or rules_of.is_conclusive(result.outcome.value, result.reason.value)
                answered.append(
                    {
                        **_about(each), "outcome": result.outcome.value, "reason": result.reason.value,
                        "detail": _told(result, final, conclusive=conclusive), "http_status": result.http_status,
                        "final_identity": final, "is_conclusive": conclusive, "hops": tables.hop_rows(result.hops),
                        "checked_at": result.fetched_at, "is_reused": False,
                    }
                )  # fmt: skip
        return answered


def _about(each: Candidate) -> dict[str, Any]:
    return {
        "source_url_id": each.source_url_id, "source_url": each.source_url, "link_identity": each.link_identity,
        "position": each.position, "why": each.why, "edges": list(each.edges), "waiting_edges": list(each.waiting_edges),
    }  # fmt: skip


def _told(result: FetchResult, final: str | None, *, conclusive: bool) -> str | None:
    if final is not None:
        return None
    if conclusive and result.final_url is not None:
        return f"It leads to {result.final_url[:500]}, not to a target."
    return result.detail


def _refreshes(results: Sequence[FetchResult]) -> dict[int, list[str]]:
    """Where the pages that answered refresh to, by the task's key: a browser without scripts goes on there."""
    links = [LINK_MANIFESTS.empty()]
    parse_pool.run_parse_many(
        (
            ParseJob(
                key=result.task.key, body=result.body, document_url=result.final_url or result.task.url,
                content_hash=result.content_hash or b"", content_type=result.content_type,
                refresh_header=result.refresh_header,
            )
            for result in results
            if result.reason.value in READABLE_CODES and result.body is not None
        ),
        lambda _page, found: links.append(found),
    )  # fmt: skip
    found: dict[int, list[str]] = defaultdict(list)
    table = pa.concat_tables(links)
    kinds = pa.array(["meta_refresh", "http_refresh"])
    for row in table.filter(pc.is_in(table["kind"], kinds)).to_pylist():
        if row["resolved"] is not None:
            found[row["source_url_id"]].append(row["resolved"])
    return found


def _of(table: pa.Table, sources: pa.Array) -> pa.Table:
    return table.filter(pc.is_in(table["source_url_id"], sources))


def build(partitions: dg.PartitionsDefinition) -> dg.AssetsDefinition:
    @dg.asset(
        key=KEY, deps=[link_manifests.KEY], partitions_def=partitions, group_name="crawl", kinds={"http", "parquet"}
    )
    def redirect_checks(
        context: dg.AssetExecutionContext, platform: dg.ResourceParam[Platform]
    ) -> dg.MaterializeResult:
        """Where the pages' own redirectors lead, for edges that no direct link stands for. Only what was seen is proven."""
        rows = pa.concat_tables(
            [LINK_REDIRECTS.empty(), *(check(platform, at) for at in window_shards(context, platform))]
        )
        proven = pc.is_valid(rows["final_identity"])
        return dg.MaterializeResult(
            metadata={
                "redirectors": rows.num_rows,
                "proven": pc.sum(proven).as_py() or 0,
                "reused": pc.sum(rows["is_reused"]).as_py() or 0,
                "unchecked": pc.sum(pc.invert(rows["is_conclusive"])).as_py() or 0,
                "by_answer": tables.count_table(rows, ["why", "outcome", "reason"]),
            }
        )

    return redirect_checks
