"""`make bench`: the benchmarks one after another, each a table of its own. Name one or more to run only those.

They measure ratios within one run: compare figures of one machine and one run, not of two.
"""

from __future__ import annotations

import subprocess
import sys

QUICK: dict[str, list[str]] = {
    # name: arguments that keep it within a few minutes on two cores; each module's --help has the full sizes
    "parse_bench": [],
    "crawl_bench": [],
    "matching_bench": ["--links", "350000", "--edges", "350000", "--shards", "1"],
    "fold_bench": ["--edges", "200000"],
    "ledger_bench": ["--edges", "200000", "--due", "20000"],
    "import_bench": ["--rows", "200000"],
}


def main(names: list[str]) -> int:
    unknown = [name for name in names if name not in QUICK]
    if unknown:
        print(f"no benchmark is called {', '.join(unknown)}; there are: {', '.join(QUICK)}", file=sys.stderr)
        return 2
    failed = []
    for name in names or QUICK:
        print(f"\n== {name} ==", flush=True)
        if subprocess.run([sys.executable, "-m", f"tests.bench.{name}", *QUICK[name]], check=False).returncode:
            failed.append(name)
    if failed:
        print(f"\nfailed: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
