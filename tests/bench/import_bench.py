"""How fast a big export goes in, and in how much memory: `python -m tests.bench.import_bench [--rows 1000000]`.

A file in Ahrefs' own format (UTF-16, tabs, 37 columns, quoted text; 740 bytes a row) is generated, read and judged alone,
and then imported into a private MySQL server by a process of its own, whose peak resident memory is what is reported:
bound 500 MB. Not a test: it takes minutes.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from warehouse.local.paths import StackFolder

RSS_BOUND_MB = 500
HEADINGS = (
    "Referring page title,Referring page URL,Language,Platform,Referring page HTTP code,Domain rating,UR,Domain traffic,"
    "Referring domains,Linked domains,External links,Page traffic,Keywords,Target URL,Left context,Anchor,Right context,"
    "Redirect Chain URLs,Redirect Chain status codes,Type,Is spam,Content,Nofollow,UGC,Sponsored,Rendered,Raw,Lost status,"
    "Drop reason,Discovered status,First seen,Last seen,Lost,Author,Page type,Page category,Links in group"
)


def generate(path: Path, rows: int) -> None:
    """`rows` distinct edges of 60,000 hosts to 5,000 pages of one site; the same file for the same `rows`."""
    draw = random.Random(1)
    with path.open("w", encoding="utf-16") as out:
        out.write(HEADINGS.replace(",", "\t") + "\n")
        for i in range(rows):
            source = f"https://site{draw.randrange(60_000)}.example/post/{i}/an-article-about-things?ref={i % 7}"
            target = f"https://www.example.com/page/{draw.randrange(5_000)}"
            out.write(
                f'"Title of page {i}, and some words"\t{source}\ten\tblog\t200\t{i % 90}\t12\t1234\t55\t66\t77\t0\t1\t{target}\t'
                '"left context with some ""words"" here"\t"anchor text"\t"right context with more words here"\t\t\ttext\tfalse\t\t'
                "false\tfalse\tfalse\ttrue\ttrue\t\t\t\t2026-01-02 03:04:05\t2026-11-02 03:04:05\t\t\tArticle\t/News\t1\n"
            )


def judge(path: Path) -> dict[str, float]:
    """Read and judge alone, no ledger: rows, seconds, peak MB."""
    from transforms.imports import layout
    from transforms.imports.rows import Plan, RowJudge
    from transforms.targets import parse_target
    from warehouse.imports.reader import LineSource
    from warehouse.imports.run import read_cells

    started, rows = time.monotonic(), 0
    judge = RowJudge(Plan((parse_target("example.com"),), open_scope=False, has_target_column=True, max_targets=300))
    with LineSource(path) as source:
        for cells in read_cells(source, layout.detect(list(source.opened.head), str(path))):
            rows += judge.judge(cells).rows
    return {"rows": rows, "seconds": time.monotonic() - started, "cpu": time.process_time(), "peak_mb": _peak_mb()}


def whole(path: Path, port: int) -> dict[str, float]:
    """The import into the server on that port: rows, seconds, peak MB."""
    from transforms.clock import WallClock
    from transforms.targets import parse_target
    from warehouse.imports.run import ImportOptions, import_file
    from warehouse.ledger import Ledger
    from warehouse.ledger.config import LedgerSettings

    options = ImportOptions(
        project="bench", targets=(parse_target("example.com"),), rejects=path.with_suffix(".rejects.csv")
    )
    with Ledger(LedgerSettings(port=port)) as ledger:
        report = import_file(ledger, path, options, clock=WallClock())
    assert report.counts.rows == report.counts.accepted + report.counts.duplicate + report.counts.invalid
    return {
        "rows": report.counts.rows, "accepted": report.counts.accepted, "seconds": report.seconds,
        "cpu": time.process_time(), "peak_mb": _peak_mb(),
    }  # fmt: skip


def server_cpu(folder: Path) -> float:
    """CPU seconds that the server in that folder has used."""
    pid = int((StackFolder(folder).mysql_data / "mysqld.pid").read_text())
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextmanager
def server(folder: Path) -> Iterator[int]:
    """A private, migrated MySQL server on a free port; stopped at the end."""
    from tests.fixtures.stack import free_port
    from warehouse.ledger import migrate
    from warehouse.ledger.config import LedgerSettings
    from warehouse.local import mysql, stack
    from warehouse.local.config import StackSettings
    from warehouse.local.mysql_program import find_program

    parts, ledger = StackFolder(folder), LedgerSettings(port=free_port())
    settings = StackSettings(folder=folder)
    program = find_program(StackSettings())
    parts.create()
    mysql.initialise(program, parts)
    mysql.write_account(ledger, parts)
    try:
        stack.ensure(mysql.process(program, ledger, settings, parts), parts, timeout_s=60)
        migrate(ledger)
        yield ledger.port
    finally:
        stack.down(parts, timeout_s=60)


def _peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _child(*arguments: str) -> dict[str, float]:
    done = subprocess.run(
        [sys.executable, "-m", "tests.bench.import_bench", *arguments], check=True, capture_output=True, text=True
    )
    answer: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return answer


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--judge", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--whole", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--port", type=int, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.judge or chosen.whole:
        print(json.dumps(judge(chosen.judge) if chosen.judge else whole(chosen.whole, chosen.port)))
        return
    folder = Path(tempfile.mkdtemp(prefix="import-bench-"))
    try:
        path = folder / "export.csv"
        generate(path, chosen.rows)
        print(f"{chosen.rows:,} rows, {path.stat().st_size / 1e6:,.0f} MB of UTF-16")
        _report("read and judge", _child("--judge", str(path)))
        with server(folder / "server") as port:
            runs = []
            for what in ("import", "import again"):
                before = server_cpu(folder / "server")
                runs.append(_child("--whole", str(path), "--port", str(port)))
                _report(what, runs[-1], server_cpu(folder / "server") - before)
            first = runs[0]
        verdict = "within" if first["peak_mb"] < RSS_BOUND_MB else "OVER"
        print(f"peak memory of the import: {first['peak_mb']:,.0f} MB, {verdict} the bound of {RSS_BOUND_MB} MB")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _report(what: str, figures: dict[str, float], server: float | None = None) -> None:
    speed = figures["rows"] / figures["seconds"]
    beside = "" if server is None else f"{server:>8,.1f} s CPU of the server"
    print(
        f"{what:<16}{figures['seconds']:>8,.1f} s {speed:>10,.0f} rows/s {figures['peak_mb']:>6,.0f} MB peak"
        f"{figures['cpu']:>8,.1f} s CPU{beside}  load {os.getloadavg()[0]:.1f}",
        flush=True,
    )


if __name__ == "__main__":
    main()
