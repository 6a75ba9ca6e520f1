"""Stage 7, `current_state`: what dbt decided, back into the ledger: state, hot observations, occurrences, matches,
alerts, deliveries, outbox, job completion and next checks, in one transaction per batch of edges."""

from collections import Counter
from collections.abc import Iterator
from datetime import timedelta

import dagster as dg
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pads

from assets import link_observations, tables
from assets.partition import windows
from assets.platform import Platform
from transforms import alerts, recheck
from transforms.arrays import frame_of
from transforms.fetches import latest_fetches
from transforms.schemas import OCCURRENCES, PAGE_FETCHES
from transforms.windows import Window
from warehouse import clickhouse
from warehouse.ledger import projects, writeback
from warehouse.ledger.tables import SCHEDULE

KEY = dg.AssetKey(["backlinks", "current_state"])
LATE = timedelta(days=7)
"""What was observed this long ago is recorded as an alert but delivered to nobody: a backfill is not news."""
FRESH = dg.FreshnessPolicy.time_window(warn_window=timedelta(hours=2), fail_window=timedelta(hours=6))


def write_back(platform: Platform, window: Window) -> tuple[dict[str, int], pa.Table]:
    """Write a window's decided state. Returns (counts, the transitions and changes as rows for people)."""
    here = platform.datasets.read(OCCURRENCES, window)
    fetches = latest_fetches(platform.datasets.read(PAGE_FETCHES, window))
    counts: list[dict[str, int]] = []
    news = []
    for states in clickhouse.iter_edge_states(platform.clickhouse, window):
        observations = _observations(platform, window, states)
        rules = projects.alert_rules(platform.ledger, pc.unique(states["project_id"]).to_pylist())
        edges = pc.unique(states["backlink_id"])
        now = platform.clock.now()
        raised = alerts.raise_alerts(
            states=states,
            observations=observations,
            rules=rules,
            previous=clickhouse.last_found_before(platform.clickhouse, edges, window.start),
            recent=writeback.recent_alerts(platform.ledger, edges, since=now - LATE),
            deliver_since=now - LATE,
        )
        written = writeback.apply_batch(
            platform.ledger,
            writeback.WritebackBatch(
                states=states,
                observations=observations,
                occurrences=_occurrences(platform, window, here, states, observations),
                schedule=schedule(platform, window, states, observations, fetches),
                alert_events=raised.events,
                deliveries=raised.deliveries,
                outbox=raised.outbox,
            ),
            now=now,
        )
        decided = frame_of(states)
        changed = decided.filter((pl.col("event") != "none") | (pl.col("changes").list.len() > 0))
        events = Counter(changed["event"].to_list())
        counts.append(
            {
                "rows": states.num_rows,
                **{event: events.get(event, 0) for event in ("new", "lost", "recovered")},
                "changes": int(changed["changes"].list.len().sum() or 0),
                **written,
                "alert_rules_not_understood": len(raised.problems),
            }
        )
        news.append(changed.select("backlink_id", "observed_at", "event", "changes", "state").to_arrow())
    return tables.total(counts), pa.concat_tables(news) if news else pa.table({"event": pa.array([], pa.string())})


def _observations(platform: Platform, window: Window, states: pa.Table) -> pa.Table:
    """What the states stand after: mostly this window's (one month is read), and later ones that were folded again."""
    here = clickhouse.read_observations(platform.clickhouse, window, observation_ids=states["observation_id"])
    late = states.filter(pc.invert(pc.is_in(states["observation_id"], here["observation_id"])))
    if not late.num_rows:
        return here
    return pa.concat_tables(
        [here, clickhouse.read_observations(platform.clickhouse, observation_ids=late["observation_id"])]
    )


def _newest(states: pa.Table, observations: pa.Table) -> pa.Table:
    """The observations that are the newest of their edge."""
    return observations.filter(
        pc.is_in(observations["observation_id"], states.filter(states["is_latest"])["observation_id"])
    )


def _later_windows(platform: Platform, window: Window, newest: pa.Table) -> Iterator[tuple[Window, pa.Table]]:
    """The windows besides this one that hold newest observations, with these: a backfill folds their edges again."""
    late = newest.filter(pc.not_equal(newest["window_start"], pa.scalar(window.start, newest["window_start"].type)))
    for start in pc.unique(late["window_start"]).to_pylist():
        rows = late.filter(pc.equal(late["window_start"], pa.scalar(start, late["window_start"].type)))
        yield Window(start, platform.window_length), rows


def _occurrences(
    platform: Platform, window: Window, here: pa.Table, states: pa.Table, observations: pa.Table
) -> pa.Table:
    """Occurrences of the states' edges: `here`, this window's, and those of the later windows that hold the newest
    observation of an edge which a backfill folds again. Without them its links would seem gone."""
    parts = [here.filter(pc.is_in(here["backlink_id"], pc.unique(states["backlink_id"])))]
    for later, rows in _later_windows(platform, window, _newest(states, observations)):
        only = pads.field("backlink_id").isin(pc.unique(rows["backlink_id"]))
        parts.append(platform.datasets.read(OCCURRENCES, later, filters=only))
    return pa.concat_tables(parts)


def _retry_after(platform: Platform, window: Window, fetches: pa.Table, newest: pa.Table) -> pa.Table:
    """`fetch_job_id`, `retry_after_s`: what the server asked for at the newest check of each edge, whichever window that
    was in. `fetches` are this window's."""
    parts = [fetches.select(["fetch_job_id", "retry_after_s"])]
    for later, rows in _later_windows(platform, window, newest):
        only = pads.field("source_url_id").isin(pc.unique(rows["source_url_id"]))
        answers = latest_fetches(platform.datasets.read(PAGE_FETCHES, later, filters=only))
        parts.append(answers.select(["fetch_job_id", "retry_after_s"]))
    return pa.concat_tables(parts)


def schedule(
    platform: Platform, window: Window, states: pa.Table, observations: pa.Table, fetches: pa.Table
) -> pa.Table:
    """Next checks (`SCHEDULE`) of the edges whose newest observation is among the states; `fetches` are the window's."""
    newest = _newest(states, observations)
    frames = [
        frame_of(table)
        for table in (
            states.filter(states["is_latest"]),
            newest.select(["observation_id", "fetch_job_id", "source_url_id", "evidence", "evidence_reason"]),
            writeback.read_intervals(platform.ledger, pc.unique(states["backlink_id"])).drop(
                ["source_url_id", "misses"]
            ),
            _retry_after(platform, window, fetches, newest),
        )
    ]
    latest, observed, intervals, answers = frames
    edges = (
        latest.join(observed, on="observation_id")
        .join(intervals, on="backlink_id")
        .join(answers, on="fetch_job_id", how="left")
        .with_columns(
            consecutive_failures=pl.col("consecutive_source_failures"),
            interval_s=pl.col("recrawl_interval_seconds"),
            change_interval_s=recheck.change_estimate(
                pl.col("change_interval_ema_s"), pl.col("last_changed_at"), pl.col("observed_at")
            ),
        )
    )
    checks = recheck.next_checks(edges, now=platform.clock.now(), window_length=platform.window_length)
    return SCHEDULE.conform(checks.select(SCHEDULE.columns).to_arrow())


def build(partitions: dg.PartitionsDefinition) -> dg.AssetsDefinition:
    @dg.asset(
        key=KEY, backfill_policy=dg.BackfillPolicy.multi_run(),
        deps=[dg.AssetKey(["marts", "edge_states"]), link_observations.KEY],
        partitions_def=partitions,
        group_name="state", kinds={"mysql"}, freshness_policy=FRESH,
    )  # fmt: skip
    def current_state(context: dg.AssetExecutionContext, platform: dg.ResourceParam[Platform]) -> dg.MaterializeResult:
        """MySQL follows: each edge's current state, its alerts, and when it is checked next."""
        counts, news = zip(*(write_back(platform, window) for window in windows(context, platform)), strict=True)
        changed = pa.concat_tables(news, promote_options="default")
        return dg.MaterializeResult(
            metadata={**tables.total(list(counts)), "transitions": tables.count_table(changed, ["event"])}
        )

    return current_state
