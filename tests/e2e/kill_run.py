"""Windows that end with SIGKILL at a named point: what `test_kill` starts.

`BACKLINKS_ENV_FILE=… python -m tests.e2e.kill_run` imports what a window needs, once, then forks for each line
`WINDOW_KEY<tab>POINT` of stdin: the child runs the window and dies. Answers a line with the child's exit code (-9: killed,
0: the point was never reached). The parent opens no store and starts no thread, so that forking it is safe.
"""

from __future__ import annotations

import functools
import importlib
import itertools
import os
import signal
import sys
import threading
import traceback
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
    "history folded, states not": Point("dbt.adapters.clickhouse.httpclient:ChHttpClient.command", "before",
                                        text='.edge_current"'),
    "before the first transaction": Point("warehouse.ledger.writeback:_apply", "before"),
    "between two transactions": Point("warehouse.ledger.writeback:_apply", "before", 3),
    "in a transaction": Point("warehouse.ledger.writeback:_apply", "after", 2),
    "redirectors asked, not written": Point("assets.redirect_checks:Plan.rows", "after"),
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


def run(window_key: str, point: str) -> None:
    """The window, in this process, until the point."""
    from orchestration import flow
    from orchestration.settings import Settings
    from transforms.windows import Window
    from warehouse.ledger import writeback

    settings = Settings()
    writeback.apply_batch = functools.partial(writeback.apply_batch, edges_per_transaction=EDGES_PER_TRANSACTION)
    die_at(POINTS[point])
    with flow.instance(settings) as instance:
        flow.run_window(settings, Window.from_key(window_key, settings.window_length), on=instance)


def main() -> None:
    from orchestration import resources
    from orchestration.settings import Settings
    from warehouse.clickhouse import dbt

    platform = resources.platform(Settings())
    dbt._parse(platform.clickhouse_settings, platform.work_folder)  # a warm process has it
    for point in POINTS.values():
        importlib.import_module(point.function.partition(":")[0])
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a run prints is not an answer
    assert threading.active_count() == 1
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            code = 1
            try:
                run(*line.rstrip("\n").split("\t"))
                code = 0
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(code)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), file=answers, flush=True)


if __name__ == "__main__":
    main()
