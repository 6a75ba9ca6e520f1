"""Random histories, loaded and folded window by window in random order, with reruns, corrections and late arrivals:
afterwards every edge is as the reference fold of its evidence says. `BACKLINKS_FUZZ=20` looks longer.
"""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.fixtures.clickhouse import fresh_database, observation, own_database
from tests.fixtures.clickhouse import window as hour
from tests.service.dbt import reference
from tests.service.dbt.folding import Warehouse
from transforms.schemas import LINK_OBSERVATIONS
from warehouse.clickhouse import read_edge_states, read_observations
from warehouse.clickhouse.config import ClickHouseSettings

pytestmark = pytest.mark.service

EDGES, WINDOWS = 200, 5


def random_row(dice: random.Random, edge: int, window: int) -> dict[str, Any]:
    """Evidence at a random minute: before its window, long after it, at the same instant as another's."""
    evidence = dice.choices(["found", "missing", "none"], [4, 5, 2])[0]
    minute = dice.choice([0, 5, 20, 50, 59, 60, 65, 95, -20, 700])
    changes: dict[str, Any] = {}
    if evidence == "found":
        changes["anchor_text"] = dice.choice(["one", "two"])
    if evidence == "missing" and dice.random() < 0.2:
        changes["evidence_complete"] = False
    return observation(edge, window, evidence, minute=minute, **changes)


@settings(
    max_examples=int(os.environ.get("BACKLINKS_FUZZ", "1")),
    deadline=None,
    phases=[Phase.explicit, Phase.generate],  # an example is 150 edges: the failing edge is printed, no need to shrink
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(seed=st.integers(0, 2**32))
def test_any_order_gives_the_reference_fold(clickhouse_server: ClickHouseSettings, dbt_work: Path, seed: int) -> None:
    dice = random.Random(seed)
    own = own_database(clickhouse_server)
    with fresh_database(own) as client:
        warehouse = Warehouse(client, own, dbt_work)
        facts: dict[tuple[int, int], dict[str, Any]] = {}
        mysql: dict[int, dict[str, Any]] = {}
        """What a write-back that takes only higher versions would hold after every run."""
        order = list(range(WINDOWS))
        dice.shuffle(order)
        # each window once; then corrections of some, late arrivals in others, and plain reruns
        order += [dice.choice(order) for _ in range(2)]
        for step, window in enumerate(order):
            for edge in range(1, EDGES + 1):
                known = (edge, window) in facts
                # a first run sees half of the edges; a rerun corrects some and finds some more
                if dice.random() < (0.25 if known else 0.5 if step < WINDOWS else 0.2):
                    facts[edge, window] = random_row(dice, edge, window)
            mine = [row for (_, at), row in facts.items() if at == window]
            warehouse.load(*mine)
            warehouse.fold(window, select="tag:fold" if step else "+tag:fold")  # the view once
            follow(mysql, read_edge_states(client, hour(window)).to_pylist())

        stored = read_observations(client, observation_ids=[row["observation_id"] for row in facts.values()])
        assert stored.num_rows == len(facts)
        assert stored.schema.equals(LINK_OBSERVATIONS.schema)
        by_edge: dict[int, list[dict[str, Any]]] = {}
        for row in stored.to_pylist():
            by_edge.setdefault(row["backlink_id"], []).append(row)
        history = warehouse.history()
        assert history.keys() == by_edge.keys()
        for edge, rows in by_edge.items():
            folded = [
                (row["state"], row["event"], row["misses"], "anchor" in row["changes"], row["state_version"])
                for row in history[edge]
            ]
            assert folded == reference.fold(rows), f"edge {edge} of seed {seed}"
        current = warehouse.query("SELECT backlink_id, toString(state), misses, state_version FROM edge_current FINAL")
        last = {
            edge: (rows[-1]["state"], rows[-1]["misses"], rows[-1]["state_version"]) for edge, rows in history.items()
        }
        assert {edge: tuple(rest) for edge, *rest in current} == last
        # and the ledger, which only ever saw what each run handed over, has followed
        assert {edge: (row["state"], row["misses"], row["state_version"]) for edge, row in mysql.items()} == last

        # the second statement of the rules and the promise hold over everything; a rerun of any window writes nothing
        written = warehouse.raw_rows("edge_history")
        warehouse.fold(dice.choice(order))
        assert warehouse.raw_rows("edge_history") == written
        warehouse.fold(0, select="test_type:singular", command="test", variables={"check_all_history": True})


def follow(mysql: dict[int, dict[str, Any]], rows: list[dict[str, Any]]) -> None:
    for row in rows:
        held = mysql.get(row["backlink_id"])
        if row["is_latest"] and (held is None or row["state_version"] > held["state_version"]):
            mysql[row["backlink_id"]] = row
