"""A soak: many hosts that fail at random, crawlers, a ledger and a store that go away at random, and every promise
checked at the end.

    python -m tests.bench.crawl_soak [--seconds 1800] [--window 300] [--hosts 60] [--shards 4] [--seed 1]

What runs is the flow's own claim and fetch (`assets.due_sources`, `assets.page_fetches`) on a private MySQL server and a
directory as object store, both in a temporary folder: leases, fences, snapshots, Parquet parts, ledger commits. One
process crawls shard 0 throughout, so that growth would show; two run shards 1 and 2 each, side by side; one shard 3.

Faults of the web: resets, stalls, slow drips, half bodies, garbage, bombs, 404, 500, 429 and 503 with Retry-After,
robots.txt that fails, redirects within a host and to hosts of any shard. Ours: lost DNS, SIGTERM and kill -9 of crawlers,
MySQL restarted cleanly and killed, an object store that does not answer. After the time is up the faults end, every
window is finished, and the judge reads back what is there. Exit code 1: a promise was broken.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path


def main() -> int:
    # Imported here: crawlers are forked from a process of their own and must not import all of this each time.
    from tests.bench.soak.conductor import CONSOLE, report, soak
    from tests.bench.soak.scene import Scene
    from warehouse.local.paths import project_root

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=1800, help="how long faults last")
    parser.add_argument("--window", type=int, default=300, help="length of a window, in seconds: whole minutes")
    parser.add_argument("--hosts", type=int, default=60)
    parser.add_argument("--pages", type=int, default=None, help="pages a host; default: what a window has time for")
    parser.add_argument("--shards", type=int, default=4)
    parser.add_argument("--gap", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--quick", action="store_true", help="three minutes, windows of one")
    parser.add_argument("--keep", type=Path, help="work in this folder and leave it there")
    parser.add_argument("--json", type=Path, default=project_root() / ".stack" / "bench" / "crawl-soak.json")
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.seconds, arguments.window = 180.0, 60
    if arguments.pages is None:
        arguments.pages = max(5, int(0.5 * arguments.window / arguments.gap))
    with tempfile.TemporaryDirectory(prefix="crawl-soak-") as name:
        folder = arguments.keep or Path(name)
        folder.mkdir(parents=True, exist_ok=True)
        scene = Scene(
            folder=str(folder.resolve()),
            hosts=arguments.hosts,
            pages=arguments.pages,
            shards=arguments.shards,
            window_s=arguments.window,
            gap_s=arguments.gap,
        )
        verdict = soak(scene, arguments.seconds, arguments.seed)
    report(verdict, CONSOLE)
    arguments.json.parent.mkdir(parents=True, exist_ok=True)
    options = {name: str(value) for name, value in vars(arguments).items()}
    arguments.json.write_text(
        json.dumps(
            {"options": options, "broken": verdict.broken, "figures": verdict.figures, "examples": verdict.examples},
            indent=1,
        )
    )
    CONSOLE.print(f"Figures: {arguments.json}", highlight=False)
    return 1 if verdict.broken else 0


if __name__ == "__main__":
    sys.exit(main())
