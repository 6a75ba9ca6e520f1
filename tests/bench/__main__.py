"""`make bench`: the benchmarks one after another, each with a table of its own, then how long each took.

    python -m tests.bench [--quick] [NAME ...]

Without names: all that measure speed and memory, about a quarter of an hour on two idle cores. `--quick` runs small sizes,
to see that they work. By name alone, because they take long: `crawl_soak`, `parse_fuzz`. Each module's `--help` has the
full sizes. They measure ratios within one run: compare figures of one machine and one run, not of two.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table


@dataclass(frozen=True)
class Bench:
    """Arguments of a module of this package; `needs_mysql`: it uses the server that the settings name."""

    usual: tuple[str, ...] = ()
    quick: tuple[str, ...] = ()
    needs_mysql: bool = False
    is_long: bool = False


BENCHES: dict[str, Bench] = {
    "parse_bench": Bench(),
    "crawl_bench": Bench(quick=("--quick",)),
    "matching_bench": Bench(
        ("--links", "350000", "--edges", "350000", "--shards", "1"),
        ("--links", "20000", "--edges", "20000", "--shards", "1"),
    ),
    "fold_bench": Bench(("--edges", "200000"), ("--edges", "20000", "--weeks", "2")),
    "ledger_bench": Bench(
        ("--edges", "200000", "--due", "20000"), ("--edges", "10000", "--due", "1000"), needs_mysql=True
    ),
    "import_bench": Bench(("--rows", "200000"), ("--rows", "10000")),
    "crawl_soak": Bench(quick=("--quick",), is_long=True),
    "parse_fuzz": Bench(quick=("--seconds", "20"), is_long=True),
}


@contextmanager
def environment(bench: Bench) -> Iterator[dict[str, str]]:
    """The environment of a benchmark: with a private MySQL server when it needs one, so that no stack need run."""
    if not bench.needs_mysql:
        yield dict(os.environ)
        return
    from tests.bench.soak.database import Database

    with tempfile.TemporaryDirectory(prefix="bench-mysql-") as folder:
        database = Database(Path(folder) / "stack")
        try:
            yield os.environ | {"BACKLINKS_LEDGER__PORT": str(database.ledger.port)}
        finally:
            database.stop()


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.bench", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(BENCHES))
    parser.add_argument("--quick", action="store_true", help="small sizes: whether they work")
    asked = parser.parse_args()
    if unknown := [name for name in asked.names if name not in BENCHES]:
        parser.error(f"no benchmark is called {', '.join(unknown)}; there are: {', '.join(BENCHES)}")
    names = asked.names or [name for name, bench in BENCHES.items() if not bench.is_long]
    console = Console()
    done = Table("benchmark", "seconds", "", title="Benchmarks", title_justify="left")
    failed = False
    for number, name in enumerate(names, 1):
        bench = BENCHES[name]
        console.rule(f"{number} of {len(names)}: {name}")
        began = time.monotonic()
        with environment(bench) as variables:
            command = [sys.executable, "-m", f"tests.bench.{name}", *(bench.quick if asked.quick else bench.usual)]
            code = subprocess.run(command, check=False, env=variables).returncode
        failed |= code != 0
        done.add_row(name, f"{time.monotonic() - began:.0f}", f"[red]failed ({code})" if code else "ran")
    console.print(done)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
