"""Runs: late and corrected windows, reruns, kills between and within models, what the write-back is told, the marts."""

from __future__ import annotations

import json
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest
from clickhouse_connect.driver.client import Client

from tests.fixtures.clickhouse import PROJECT, T0, key, observation, own_database, window
from tests.fixtures.stack import free_port
from tests.service.dbt.folding import Warehouse, short
from transforms.errors import PermanentError, TransientError
from transforms.schemas import EDGE_STATES
from warehouse.clickhouse import explain_edge, iter_edge_states, manifest_path, project_edges, read_edge_states, run_dbt
from warehouse.clickhouse.config import ClickHouseSettings
from warehouse.clickhouse.dbt import PASSWORD_VARIABLE
from warehouse.clickhouse.read import EDGE_EXPLAINED, PROJECT_EDGES

pytestmark = pytest.mark.service


@pytest.fixture(scope="module")
def clickhouse_settings(clickhouse_server: ClickHouseSettings) -> ClickHouseSettings:
    """One name for this module's databases, made and dropped for each test: dbt parses the project for a name once."""
    return own_database(clickhouse_server)


@pytest.fixture
def warehouse(clickhouse: Client, clickhouse_settings: ClickHouseSettings, dbt_work: Path) -> Warehouse:
    """An edge (1) that was found in window 0, and one (2) that was not decided; folded, with all views."""
    own = Warehouse(clickhouse, clickhouse_settings, dbt_work)
    own.load(observation(1, 0), observation(2, 0, "none"))
    own.fold(0, select="+tag:fold")  # with the staging view
    return own


def told(warehouse: Warehouse, at: int) -> list[tuple[int, int, str, str, bool]]:
    """(edge, hour, state, event, is_latest) of what the write-back reads after a window."""
    rows = read_edge_states(warehouse.client, window(at)).to_pylist()
    return [
        (
            row["backlink_id"],
            (row["observed_at"] - T0) // timedelta(hours=1),
            row["state"],
            row["event"],
            row["is_latest"],
        )
        for row in rows
    ]


def test_a_late_window_changes_what_came_after_it_and_the_ledger_is_told(warehouse: Warehouse) -> None:
    warehouse.load(observation(1, 1, "missing"))
    warehouse.fold(1)
    assert told(warehouse, 1) == [(1, 1, "live", "none", True)]
    warehouse.load(observation(1, 3, "found"))
    warehouse.fold(3)
    assert told(warehouse, 3) == [(1, 3, "live", "none", True)]
    before = read_edge_states(warehouse.client, window(3))["state_version"][0].as_py()
    # window 2 arrives late and holds the second miss: lost then, and so what window 3 saw was a recovery
    warehouse.load(observation(1, 2, "missing"))
    warehouse.fold(2)
    assert told(warehouse, 2) == [(1, 2, "lost", "lost", False), (1, 3, "live", "recovered", True)]
    assert read_edge_states(warehouse.client, window(2))["state_version"].to_pylist()[-1] > before
    # window 1 is corrected: the page had been blocked. Then there was one miss only: nothing lost, nothing recovered
    warehouse.load(observation(1, 1, "none"))
    warehouse.fold(1)
    assert told(warehouse, 1) == [
        (1, 1, "live", "none", False), (1, 2, "live", "none", False), (1, 3, "live", "none", True),
    ]  # fmt: skip
    assert short(warehouse.history()[1]) == [
        ("live", "new", 0), ("live", "none", 0), ("live", "none", 1), ("live", "none", 0),
    ]  # fmt: skip
    # the untouched edge was folded by its own window alone
    assert short(warehouse.history()[2]) == [("unknown", "none", 0)]


def test_a_rerun_writes_nothing_and_tells_the_same(warehouse: Warehouse) -> None:
    warehouse.load(observation(1, 1, "missing"), observation(2, 1))
    warehouse.fold(1)
    history, rows, said = warehouse.history(), warehouse.raw_rows("edge_history"), told(warehouse, 1)
    for at in (1, 0, 1):
        warehouse.fold(at)
    assert (warehouse.history(), warehouse.raw_rows("edge_history"), told(warehouse, 1)) == (history, rows, said)


def test_several_windows_in_one_run(warehouse: Warehouse) -> None:
    warehouse.load(*(observation(1, at, "missing") for at in (1, 2)), observation(1, 3))
    run_dbt(warehouse.settings, (window(1).start, window(3).end), "tag:fold", work=warehouse.work)
    assert short(warehouse.history()[1]) == [
        ("live", "new", 0), ("live", "none", 1), ("lost", "lost", 2), ("live", "recovered", 0),
    ]  # fmt: skip


def test_an_observation_that_moves_is_not_counted_twice(warehouse: Warehouse) -> None:
    """Window 1 is fetched again hours later (refetch): its miss moves behind window 2's, and is still one miss."""
    warehouse.load(observation(1, 1, "missing"))
    warehouse.fold(1)
    warehouse.load(observation(1, 2, "none"))
    warehouse.fold(2)
    warehouse.load(observation(1, 1, "missing", minute=200))
    warehouse.fold(1)
    assert short(warehouse.history()[1]) == [("live", "new", 0), ("live", "none", 0), ("live", "none", 1)]
    current = warehouse.query("SELECT misses, observed_at FROM edge_current FINAL WHERE backlink_id = 1")
    assert current == [(1, (T0 + timedelta(hours=1, minutes=200)).replace(tzinfo=None))]


def test_killed_between_history_and_current(warehouse: Warehouse) -> None:
    """edge_history holds window 1, edge_current does not: the next window goes on from what history says."""
    warehouse.load(observation(1, 1, "missing"))
    warehouse.fold(1, select=["int_refold_edges", "int_refold_observations", "edge_history"])
    assert warehouse.query("SELECT misses FROM edge_current FINAL WHERE backlink_id = 1") == [(0,)]
    warehouse.load(observation(1, 2, "missing"))
    warehouse.fold(2)
    assert short(warehouse.history()[1]) == [("live", "new", 0), ("live", "none", 1), ("lost", "lost", 2)]


def test_killed_while_a_refold_was_written(warehouse: Warehouse) -> None:
    """Of a refold of windows 1 and 2 only window 1's row arrived. Running window 1 again completes it."""
    warehouse.load(observation(1, 2, "missing"))
    warehouse.fold(2)
    warehouse.load(observation(1, 1, "missing"))
    warehouse.fold(1, select=["int_refold_edges", "int_refold_observations", "edge_history"])
    warehouse.client.command(
        "DELETE FROM edge_history WHERE backlink_id = 1 AND state = 'lost' SETTINGS mutations_sync = 2"
    )  # the row of window 2, in its version of the refold
    warehouse.fold(1)
    assert short(warehouse.history()[1]) == [("live", "new", 0), ("live", "none", 1), ("lost", "lost", 2)]
    assert warehouse.query("SELECT toString(state) FROM edge_current FINAL WHERE backlink_id = 1") == [("lost",)]


def test_a_full_refresh_says_the_same(warehouse: Warehouse) -> None:
    warehouse.load(observation(1, 1, "missing"), observation(2, 1))
    warehouse.fold(1)
    history = warehouse.history()
    warehouse.fold(1, full_refresh=True)
    assert warehouse.history() == history
    warehouse.load(observation(1, 2, "missing"))
    warehouse.fold(2)
    assert short(warehouse.history()[1])[-1] == ("lost", "lost", 2)


def test_batches_never_split_an_edge(warehouse: Warehouse) -> None:
    warehouse.load(*(observation(edge, at) for edge in range(3, 43) for at in (1, 2)))
    warehouse.fold(2)
    warehouse.fold(1)  # late: each edge is told twice
    batches = list(iter_edge_states(warehouse.client, window(1), batch_rows=7))
    assert [table.num_rows for table in batches] == [6] * 13 + [2]  # 40 edges of 2 rows
    assert all(table.schema.equals(EDGE_STATES.schema) for table in batches)
    assert all(set(table["backlink_id"].to_pylist()) for table in batches)
    owners = [set(table["backlink_id"].to_pylist()) for table in batches]
    assert sum(map(len, owners)) == 40
    # an edge longer than a batch is a batch of its own
    assert [table.num_rows for table in iter_edge_states(warehouse.client, window(1), batch_rows=1)] == [2] * 40


def test_explain_and_project_edges(warehouse: Warehouse) -> None:
    warehouse.load(observation(1, 1, "found", anchor_text="click", rel_nofollow=True, follow="nofollow_link"))
    warehouse.fold(1)
    warehouse.load(observation(1, 2, "none", evidence_reason="http_403", source_fetch_health="blocked"))
    warehouse.fold(2)
    chain = explain_edge(warehouse.client, PROJECT, 1)
    assert chain.schema.equals(EDGE_EXPLAINED)
    assert [(row["evidence_reason"], row["state"], row["event"], row["changes"]) for row in chain.to_pylist()] == [
        ("link_found", "live", "new", []),
        ("link_found", "live", "none", ["rel", "anchor"]),
        ("http_403", "live", "none", []),
    ]
    edges = project_edges(warehouse.client, PROJECT)
    assert edges.schema.equals(PROJECT_EDGES)
    one = edges.to_pylist()[0]
    # blocked at the newest check; the link is told as it was last found
    assert (one["state"], one["evidence"], one["evidence_reason"]) == ("live", "none", "http_403")
    assert (one["anchor_text"], one["follow"], one["placement"]) == ("click", "nofollow_link", "content")
    assert one["last_live_at"] == T0 + timedelta(hours=1, minutes=5)
    assert project_edges(warehouse.client, key("nobody")).num_rows == 0
    assert explain_edge(warehouse.client, PROJECT, 99).num_rows == 0


def test_marts_count_each_thing_once(warehouse: Warehouse) -> None:
    """Edge 1: new, missed, lost. Edge 2: undecided, found. Edge 3: never found. Window 1 is corrected after it was
    folded, so that every table holds rows that were replaced."""
    rows: dict[int, list[dict[str, Any]]] = {
        1: [observation(1, 1, "none"), observation(2, 1), observation(3, 1, "missing")],
        2: [observation(1, 2, "missing"), observation(2, 2, anchor_text="click"), observation(3, 2, "missing")],
    }
    for at, loaded in rows.items():
        warehouse.load(*loaded)
        warehouse.fold(at)
    warehouse.load(observation(1, 1, "missing"))
    warehouse.fold(1, select=None, command="build")
    assert warehouse.query(
        "SELECT edges, live_backlinks, lost_backlinks, never_found, unknown_backlinks, referring_domains "
        "FROM project_summary"
    ) == [(3, 1, 1, 1, 0, 1)]
    assert warehouse.query(
        "SELECT stat_date, observations_count, found_count, missing_count, undecided_count, new_count, lost_count, "
        "recovered_count, changed_count, edges_checked FROM project_daily_stats"
    ) == [(date(2026, 11, 30), 8, 3, 4, 1, 2, 1, 0, 1, 3)]
    changes = warehouse.query("SELECT backlink_id, transition, kind FROM transitions ORDER BY observed_at, backlink_id")
    assert changes == [
        (1, "new", "availability"), (2, "new", "availability"), (1, "lost", "availability"), (2, "anchor", "property"),
    ]  # fmt: skip
    assert warehouse.query(
        "SELECT referring_domain, live_backlinks, lost_backlinks FROM referring_domains ORDER BY 1"
    ) == [("site1.example", 0, 1), ("site2.example", 1, 0), ("site3.example", 0, 0)]
    assert warehouse.query("SELECT live_backlinks, lost_backlinks, referring_domains FROM target_stats") == [(1, 1, 1)]
    assert warehouse.query(
        "SELECT edges_checked, edges_decided, undecided_failed FROM coverage ORDER BY window_start"
    ) == [(2, 1, 1), (3, 3, 0), (3, 3, 0)]
    assert warehouse.query("SELECT count(), uniqExact(observation_id) FROM observation_history") == [(8, 8)]
    assert warehouse.query("SELECT count(), countIf(is_latest) FROM edge_states") == [(8, 3)]
    assert warehouse.query("SELECT confirmation_pending FROM current_backlinks ORDER BY backlink_id") == [
        (0,),
        (0,),
        (0,),
    ]
    # history says of a miss nothing about the link that is gone
    assert warehouse.query(
        "SELECT anchor_text, follow FROM observation_history WHERE backlink_id = 1 ORDER BY observed_at"
    ) == [("our friends", "follow"), (None, None), (None, None)]


def test_a_lost_without_evidence_fails_the_run(warehouse: Warehouse) -> None:
    """Whoever breaks the fold is caught: a LOST is planted whose evidence holds one miss only."""
    warehouse.load(observation(1, 1, "missing"))
    warehouse.fold(1)
    for table in ("edge_history", "edge_current"):
        warehouse.client.command(
            f"INSERT INTO {table} "
            "SELECT * REPLACE ('lost' AS state, 'lost' AS event, fold_version + 1 AS fold_version) "
            f"FROM {table} WHERE backlink_id = 1 AND misses = 1"
        )
    with pytest.raises(PermanentError, match="dbt test lost_only_on_two_complete_misses"):
        warehouse.fold(1, select="lost_only_on_two_complete_misses", command="test")


def test_errors_in_one_sentence(warehouse: Warehouse, tmp_path: Path) -> None:
    with pytest.raises(TransientError, match=r"127\.0\.0\.1"):
        run_dbt(warehouse.settings.model_copy(update={"port": free_port()}), window(0), work=warehouse.work)
    warehouse.client.command("DROP TABLE backlink_observations_fact")
    with pytest.raises(PermanentError, match=r"dbt model int_refold_edges: .*backlink_observations_fact") as caught:
        warehouse.fold(0)
    assert "\n" not in str(caught.value)


def test_no_secret_is_written_and_nothing_into_the_project(warehouse: Warehouse) -> None:
    manifest = json.loads(manifest_path(warehouse.work).read_text())
    assert {"source.backlinks.backlinks.link_observations", "source.backlinks.backlinks.page_fetches"} <= set(
        manifest["sources"]
    )
    secret = warehouse.settings.password.get_secret_value().encode()
    written = [path for path in warehouse.work.rglob("*") if path.is_file()]
    assert written
    assert not [path for path in written if secret in path.read_bytes()]
    assert PASSWORD_VARIABLE.startswith("DBT_ENV_SECRET_")


def test_the_notebook_runs_and_is_kept_without_outputs(warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    """Edge 1 is new at 10:05, lost at 12:05 and back at 14:05: two hours away; edge 2 is found nofollowed."""
    warehouse.load(
        *(observation(1, at, "missing") for at in (1, 2)), observation(1, 4),
        observation(2, 1, rel_nofollow=True, follow="nofollow_link"),
    )  # fmt: skip
    run_dbt(warehouse.settings, (window(1).start, window(4).end), None, work=warehouse.work)
    for name, value in {
        "PORT": str(warehouse.settings.port),
        "DATABASE": warehouse.settings.database,
        "PASSWORD": warehouse.settings.password.get_secret_value(),
    }.items():
        monkeypatch.setenv(f"BACKLINKS_CLICKHOUSE__{name}", value)
    path = Path(__file__).parents[3] / "notebooks" / "what_happened_to_our_links.ipynb"
    cells = [cell for cell in json.loads(path.read_text())["cells"] if cell["cell_type"] == "code"]
    assert all(not cell["outputs"] and cell["execution_count"] is None for cell in cells)
    names: dict[str, Any] = {}
    exec("\n".join("".join(cell["source"]) for cell in cells), names)
    assert names["summary"].select("edges", "live_backlinks", "lost_backlinks").rows() == [(2, 2, 0)]
    assert names["losses"].select("source_url", "minutes_to_confirm").rows() == [("https://site1.example/post", 60)]
    assert names["returns"].rows() == [("site1.example", 1, 2.0)]
    assert sorted(names["followed"].rows()) == [("follow", 1, 1), ("nofollow_link", 1, 1)]
    assert names["trust"]["decided_share"].to_list() == [1.0, 1.0, 1.0, 0.5]
    assert names["days"].select("gained", "returned", "lost", "net").rows() == [(2, 1, 1, 2)]
    assert names["undecided"].rows() == []
    drawn = names["Bars"](names["followed"], "live_links")._repr_html_()
    assert drawn.count("width:100.0%") == 2
