"""CPU, pages and memory of the crawler: against Scrapy tuned for speed, against the floor, one process against two.

    python -m tests.bench.crawl_bench [--quick] [--pages 3000] [--hosts 64] [--only keepalive,tls,unchanged,processes,...]

Here: the command and its table. A local multi-host server in a process of its own, one process per contender; its user +
system CPU is what counts. Not here: pass or fail; the figures are for a person. Compare figures of one run with each
other only.

The mix is 12 / 60 / 250 kB pages (45 / 45 / 10 %), half gzip, half identity. Ours runs with every gate on (addresses,
robots.txt of each host, frontier, limits, hashing) and a sink that extracts links with Lexbor; only the gap is 0, as
Scrapy's delay is.
"""

from __future__ import annotations

import argparse
import os

from rich.console import Console
from rich.table import Table

from tests.bench.crawling.cases import CASES, Row, Sizes

QUICK = Sizes(pages=400, hosts=32, flat_pages=5_000, flight_pages=1_000)


def table_of(cases: dict[str, list[Row]], heading: str) -> Table:
    table = Table(title=heading, title_justify="left")
    for name, how in (("", "left"), ("CPU ms a page", "right"), ("pages/s", "right"), ("peak MB", "right")):
        table.add_column(name, justify="right" if how == "right" else "left", no_wrap=how == "right")
    table.add_column("")
    for rows in cases.values():
        for each in rows:
            if each.is_title:
                table.add_section()
                table.add_row(f"[bold]{each.what}")
            else:
                table.add_row(
                    each.what,
                    "" if each.cpu_ms is None else f"{each.cpu_ms:.3f}",
                    "" if each.rate is None else f"{each.rate:,.0f}",
                    "" if each.peak_mb is None else f"{each.peak_mb:.0f}",
                    each.note,
                )
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pages", type=int)
    parser.add_argument("--hosts", type=int)
    parser.add_argument("--only", default=",".join(CASES), help=f"some of {', '.join(CASES)}")
    parser.add_argument("--quick", action="store_true", help="small: whether it works, not what it is worth")
    arguments = parser.parse_args()
    names = arguments.only.split(",")
    if unknown := [name for name in names if name not in CASES]:
        parser.error(f"no case is called {', '.join(unknown)}; there are: {', '.join(CASES)}")
    default = QUICK if arguments.quick else Sizes()
    sizes = Sizes(
        arguments.pages or default.pages, arguments.hosts or default.hosts, default.flat_pages, default.flight_pages
    )
    console, load = Console(soft_wrap=True), os.getloadavg()[0]
    done: dict[str, list[Row]] = {}
    for name in names:
        done[name] = []
        for each in CASES[name](sizes):
            done[name].append(each)
            if not each.is_title:
                cost = "" if each.cpu_ms is None else f": {each.cpu_ms:.3f} ms CPU a page"
                console.print(f"  {name}: {each.what.strip()}{cost} {each.note}", highlight=False)
    heading = (
        f"Crawl: {sizes.pages:,} pages of the mix, {sizes.hosts} hosts, {os.cpu_count()} cores, "
        f"load {load:.1f} before, {os.getloadavg()[0]:.1f} after"
    )
    Console(width=max(console.width, 120)).print(table_of(done, heading))


if __name__ == "__main__":
    main()
