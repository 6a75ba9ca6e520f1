"""One window in a process of its own that ends with SIGKILL at a named point: what `test_kill` starts.

`BACKLINKS_ENV_FILE=… python -m tests.e2e.kill_run WINDOW_KEY POINT`. Exits with 0 when the point was never reached.
"""

from __future__ import annotations

import functools
import importlib
import itertools
import os
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Point:
    """Where to die: before or after the n-th call of a function, of those whose arguments mention `text`."""

    function: str
    """`module:attribute` or `module:Class.method`, as the stage looks it up."""
    when: str
    call: int = 1
    text: str = ""


POINTS = {
    "claimed": Point("assets.due_sources:claim", "after"),
    "snapshots stored, no part": Point("assets.tables:fetch_rows", "before", 2),
    "part written, not in the ledger": Point("assets.page_fetches:PartitionSink.reconcile", "before", 2),
    "fetches in the ledger": Point("assets.page_fetches:PartitionSink.reconcile", "after", 2),
    "manifests written, not in the ledger": Point("warehouse.ledger.parses:register_parsed", "before"),
    "targets checked, not in the ledger": Point("warehouse.ledger.targets:commit_targets", "before"),
    "new edges registered": Point("warehouse.ledger.edges:register_edges", "after"),
    "observations loaded": Point("warehouse.clickhouse:load_observations", "after"),
    "history folded, states not": Point("dbt.adapters.clickhouse.httpclient:ChHttpConnection.command", "before",
                                        text="edge_current"),
    "before the first transaction": Point("warehouse.ledger.writeback:_apply", "before"),
    "between two transactions": Point("warehouse.ledger.writeback:_apply", "before", 3),
    "in a transaction": Point("warehouse.ledger.writeback:_apply", "after", 2),
    "state written, run not recorded": Point("assets.current_state:write_back", "after"),
}  # fmt: skip
EDGES_PER_TRANSACTION = 25
"""The demo's hundred edges in several transactions."""


def die_at(point: Point) -> None:
    """Arm a point in this process."""
    module, _, path = point.function.partition(":")
    owner: Any = importlib.import_module(module)
    *parents, name = path.split(".")
    for parent in parents:
        owner = getattr(owner, parent)
    original: Callable[..., Any] = getattr(owner, name)
    calls = itertools.count(1)

    @functools.wraps(original)
    def deadly(*args: Any, **kwargs: Any) -> Any:
        due = (not point.text or point.text in repr((args, kwargs))) and next(calls) == point.call
        if due and point.when == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        result = original(*args, **kwargs)
        if due:
            os.kill(os.getpid(), signal.SIGKILL)
        return result

    setattr(owner, name, deadly)


def main(window_key: str, point: str) -> None:
    from orchestration import flow
    from orchestration.settings import Settings
    from transforms.windows import Window
    from warehouse.ledger import writeback

    settings = Settings()
    writeback.apply_batch = functools.partial(writeback.apply_batch, edges_per_transaction=EDGES_PER_TRANSACTION)  # type: ignore[assignment]
    die_at(POINTS[point])
    with flow.instance(settings) as instance:
        flow.run_window(settings, Window.from_key(window_key, settings.window_length), on=instance)


if __name__ == "__main__":
    main(*sys.argv[1:])
