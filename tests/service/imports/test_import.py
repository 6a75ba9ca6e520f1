"""Whole imports against a real ledger: every row ends somewhere, whatever the file is and whatever happens to the process."""

from __future__ import annotations

import csv
import gzip
import json
import os
import signal
import subprocess
import sys
import textwrap
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from transforms.alerts.events import EVENT_TYPES
from transforms.alerts.rules import rule_problems
from transforms.clock import FixedClock
from transforms.errors import PermanentError
from transforms.imports.problems import ImportFileError, TargetNeeded
from transforms.targets import parse_target
from warehouse.imports.run import ImportOptions, ImportReport, import_file
from warehouse.ledger import Ledger, imports, keys, projects
from warehouse.ledger.config import LedgerSettings

pytestmark = pytest.mark.service

NOW = datetime(2026, 11, 3, 10, 0, tzinfo=UTC)
T = "https://example.com/page"
AHREFS = (
    "Referring page title\tReferring page URL\tLanguage\tPlatform\tReferring page HTTP code\tDomain rating\tTarget URL\t"
    "Left context\tAnchor\tNofollow\tLost status"
)


def run(ledger: Ledger, path: Path, project: str, *targets: str, **options: object) -> ImportReport:
    chosen = ImportOptions(
        project=project,
        targets=tuple(parse_target(target) for target in targets),
        rejects=path.with_suffix(".rejects.csv"),
        **options,  # type: ignore[arg-type]
    )
    report = import_file(ledger, path, chosen, clock=FixedClock(NOW))
    counts = report.counts
    assert counts.rows == counts.accepted + counts.duplicate + counts.invalid
    assert report.rejects is not None
    rejects = rejected(report)
    assert len(rejects) == counts.rejects
    # The ledger says the same as the rejects file, line by line, and names the links that were known besides.
    items = imports.run_items(ledger, report.import_run_id, limit=1_000_000).to_pylist()
    assert len(items) == counts.duplicate + counts.invalid
    assert [
        (item["line_number"], item["result"], item["reason"]) for item in items if item["reason"] != "already_known"
    ] == [(int(row["line"]), row["result"], row["reason"]) for row in rejects]
    status, received, accepted, duplicate, invalid = one(
        ledger,
        "SELECT status, rows_received, rows_accepted, rows_duplicate, rows_invalid FROM import_runs WHERE id = %(id)s",
        id=report.import_run_id,
    )
    assert (received, accepted, duplicate, invalid) == (counts.rows, counts.accepted, counts.duplicate, counts.invalid)
    assert status == ("completed" if report.damage is None else "partial")
    return report


def rejected(report: ImportReport) -> list[dict[str, str]]:
    assert report.rejects is not None
    with report.rejects.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def one(ledger: Ledger, sql: str, **params: object) -> tuple:  # type: ignore[type-arg]
    with ledger.transaction() as tx:
        row = tx.row(sql, params)
    assert row is not None
    return row


def edges(ledger: Ledger, project: str) -> list[tuple]:  # type: ignore[type-arg]
    """(source, target, any_target, first discovery source) of a project's edges, by source."""
    with ledger.transaction() as tx:
        return tx.rows(
            "SELECT s.normalized_url, t.normalized_url, b.any_target, b.first_discovery_source FROM backlinks AS b "
            "JOIN projects AS p ON p.id = b.project_id JOIN urls AS s ON s.id = b.source_url_id "
            "JOIN urls AS t ON t.id = b.target_url_id WHERE p.name = %(project)s ORDER BY s.normalized_url, t.normalized_url",
            {"project": project},
        )


def file(folder: Path, name: str, text: str, codec: str = "utf-8", *, packed: bool = False) -> Path:
    data = text.encode(codec)
    path = folder / name
    path.write_bytes(gzip.compress(data) if packed else data)
    return path


FORMATS = {
    "ahrefs": (
        AHREFS + f'\n"A ""title"", x"\thttps://a.example/1\ten\t\t200\t10\t{T}\t"left\n lines"\tanchor\tfalse\t\n'
        f"B\thttps://b.example/2\ten\t\t200\t10\t{T}\tx\tanchor\ttrue\tlost\n",
        "utf-16", False, "provider_import",
    ),
    "semrush": (
        ("Page ascore,Source title,Source url,Target url,Anchor,External links,Internal links,Nofollow,Sponsored\n"
        f'10,"A, title",https://a.example/1,{T},x,1,2,false,false\n20,B,https://b.example/2,{T},"y",1,2,true,false\n'),
        "utf-8-sig", False, "provider_import",
    ),
    "majestic": (
        ("Target URL,Source URL,Anchor Text,Source Crawl Date,FlagNoFollow,FlagMention,SourceTrustFlow\n"
        f'{T},https://a.example/1,"say "hi", you",2026-01-01,,,10\n{T},https://b.example/2,ok,2026-01-01,+,,10\n'),
        "utf-8", True, "provider_import",
    ),
    "bing": (
        f'"Source Url","Anchor text","Target Url"\n"https://a.example/1","x","{T}"\n"https://b.example/2","","{T}"\n',
        "utf-8-sig", False, "provider_import",
    ),
    "moz": (
        ("Moz\nlinks\nof\nexample.com\n2016\n\n"
        f"URL,Title,Anchor Text,Page Authority,Target URL,Link Equity\nhttps://a.example/1,t,a,1,{T},yes\nhttps://b.example/2,t,a,1,{T},no\n"),
        "cp1252", False, "provider_import",
    ),
    "screaming_frog": (
        ('"Type","Source","Destination","Size (Bytes)","Alt Text","Anchor","Status Code","Follow","Target","Rel"\n'
        f'"Hyperlink","https://a.example/1","{T}","1","","x","200","true","_blank",""\n'
        f'"Hyperlink","https://b.example/2","{T}","1","","x","200","true","",""\n'),
        "utf-8-sig", False, "provider_import",
    ),
    "generic": (f"SOURCE_URL;target url\r\nhttps://a.example/1;{T}\r\nb.example/2;{T}\r\n", "utf-8", False, "manual"),
}  # fmt: skip


@pytest.mark.parametrize("name", FORMATS)
def test_formats(ledger: Ledger, tmp_path: Path, name: str) -> None:
    text, codec, packed, how = FORMATS[name]
    report = run(ledger, file(tmp_path, f"{name}.csv", text, codec, packed=packed), name)
    assert report.layout.provider == name
    assert report.counts.accepted == report.counts.rows == 2
    assert [str(target) for target in report.targets] == ["example.com"]
    assert edges(ledger, name) == [("https://a.example/1", T, 0, how), ("https://b.example/2", T, 0, how)]


@pytest.mark.parametrize(
    ("project", "targets", "landing", "any_target"),
    [
        ("gsc domain", ["example.com"], "https://example.com/", 1),
        ("gsc page", [T], T, 0),
        ("gsc prefix", ["https://example.com/shop/*"], "https://example.com/shop/", 1),
        ("gsc two", [T, "blog.example.com"], T, 1),
    ],
)
def test_search_console_stands_for_any_link_to_the_target(
    ledger: Ledger, tmp_path: Path, project: str, targets: list[str], landing: str, any_target: int
) -> None:
    path = file(
        tmp_path,
        "links.csv",
        "Linking page,Last crawled\nhttps://a.example/1,2026-11-01\nhttps://b.example/2,2026-11-01\n",
    )
    report = run(ledger, path, project, *targets)
    assert report.counts.accepted == 2
    assert edges(ledger, project) == [
        ("https://a.example/1", landing, any_target, "search_console"), ("https://b.example/2", landing, any_target, "search_console"),
    ]  # fmt: skip
    again = run(ledger, path, project)  # the project has its targets now
    assert (again.counts.accepted, again.counts.reasons["already_known"]) == (0, 2)


def test_a_list_without_targets_asks_for_one_and_writes_nothing(ledger: Ledger, tmp_path: Path) -> None:
    path = file(tmp_path, "list.txt", "https://a.example/1\nhttps://b.example/2\n")
    with pytest.raises(TargetNeeded, match=r"--target example.com"):
        run(ledger, path, "asked")
    assert projects.find_project(ledger, tenant_id=keys.tenant_id("default"), name="asked") is None
    assert not path.with_suffix(".rejects.csv").exists()
    path = file(tmp_path, "gsc.csv", "Linking page,Last crawled\nhttps://a.example/1,2026-11-01\n")
    with pytest.raises(
        TargetNeeded, match="its headings are “Linking page”, “Last crawled”: say what the links point at"
    ):
        run(ledger, path, "asked")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty"),
        ("source_url,target_url\n", "headings but not one row"),
        ("source_url,target_url\n\n\n", "headings but not one row"),
        ("id,name\n1,x\n", "its headings are “id”, “name”; needed is source_url"),
    ],
)
def test_bad_files_write_nothing(ledger: Ledger, tmp_path: Path, text: str, message: str) -> None:
    before = one(ledger, "SELECT (SELECT COUNT(*) FROM projects), (SELECT COUNT(*) FROM import_runs)")
    with pytest.raises(ImportFileError, match=message):
        run(ledger, file(tmp_path, "bad.csv", text), "bad", "example.com")
    assert one(ledger, "SELECT (SELECT COUNT(*) FROM projects), (SELECT COUNT(*) FROM import_runs)") == before
    assert [path.name for path in tmp_path.iterdir()] == ["bad.csv"]


def test_every_row_ends_somewhere_with_its_line_and_reason(ledger: Ledger, tmp_path: Path) -> None:
    rows = [
        f"https://a.example/1,{T}",                       # 2 accepted
        f"HTTPS://A.example:443/1#top,{T}",               # 3 the same edge
        "",                                               # 4 no row
        f",{T}",                                          # 5
        "https://a.example/2,",                           # 6
        f"mailto:me@a.example,{T}",                       # 7
        f"not a url,{T}",                                 # 8
        "https://a.example/3,https://other.example/",     # 9 not what is monitored
        f"https://a.example/{'x' * 2100},{T}",            # 10
        f"https://a.example/\x00,{T}",                    # 11
        f"=HYPERLINK(1),{T}",                             # 12
        f'"https://a.example/4,{T}',                      # 13 never closed
        f"https://user:secret@a.example/5,{T}",           # 14
        "https://a.example/6",                            # 15 one cell
        "https://a.example/7,http://www.example.com/page/?utm_source=x,more",  # 16 a cell too many, but both are URLs
        f"https://a.example/äöüß,{T}",                    # 17: enough to show that the file is UTF-8
    ]  # fmt: skip
    data = ("source,target\n" + "\n".join(rows) + "\n").encode() + f"https://a.example/\xe4,{T}\n".encode(
        "latin-1"
    )  # 18
    path = tmp_path / "messy.csv"
    path.write_bytes(data)
    report = run(ledger, path, "messy", "example.com")
    assert {int(row["line"]): row["reason"] for row in rejected(report)} == {
        3: "repeated_in_file",
        5: "source_missing",
        6: "target_missing",
        7: "source_scheme_mailto",
        8: "source_not_a_url",
        9: "target_out_of_scope",
        10: "source_too_long",
        11: "source_control_character",
        12: "source_not_a_url",
        13: "unclosed_quote",
        14: "source_credentials",
        15: "ragged_row",
        18: "source_bad_encoding",
    }
    assert (report.counts.rows, report.counts.accepted, report.counts.blank_lines) == (16, 3, 1)
    assert [edge[0] for edge in edges(ledger, "messy")] == [
        f"https://a.example/{path}" for path in ("%C3%A4%C3%B6%C3%BC%C3%9F", "1", "7")
    ]
    by_line = {int(row["line"]): row for row in rejected(report)}
    assert by_line[3]["detail"] == "first on line 2"
    assert by_line[12]["source"] == "'=HYPERLINK(1)"  # no formula for a spreadsheet
    assert "secret" not in str(by_line[14])
    assert one(
        ledger, "SELECT COUNT(*) FROM import_items WHERE raw_source LIKE '%%secret%%' OR raw_target LIKE '%%secret%%'"
    ) == (0,)


def test_an_open_scope_makes_the_files_domains_targets_up_to_the_limit(ledger: Ledger, tmp_path: Path) -> None:
    tenant = keys.tenant_id("small tenant")
    with ledger.transaction() as tx:
        tx.execute(
            "INSERT INTO tenant_crawl_limits (tenant_id, daily_page_check_limit, max_targets_per_project) VALUES (%(t)s, 1000, 2)",
            {"t": tenant},
        )
    lines = [
        "https://one.example/a",
        "https://www.one.example/b",
        "https://two.example/",
        "https://three.example/",
        "https://one.example/c",
    ]
    path = file(
        tmp_path,
        "open.csv",
        "source,target\n" + "".join(f"https://a.example/{i},{url}\n" for i, url in enumerate(lines)),
    )
    report = run(ledger, path, "open", tenant="small tenant")
    assert [str(target) for target in report.targets] == ["one.example", "two.example"]
    assert [(row["line"], row["reason"]) for row in rejected(report)] == [("5", "target_limit")]
    again = run(ledger, path, "open", tenant="small tenant")
    assert again.counts.reasons == {"already_known": 4, "target_limit": 1}
    primary = one(
        ledger, "SELECT COUNT(*), SUM(is_primary) FROM project_targets WHERE project_id = %(id)s", id=report.project.id
    )
    assert (int(primary[0]), int(primary[1])) == (2, 1)


def test_importing_again_changes_no_history(ledger: Ledger, tmp_path: Path) -> None:
    path = file(tmp_path, "again.csv", f"source,target\nhttps://a.example/1,{T}\nhttps://a.example/2,{T}\n")
    first = run(ledger, path, "again", "example.com")
    with ledger.transaction() as tx:
        tx.execute(
            "UPDATE backlinks SET current_state = 'live', ever_live = TRUE, last_seen_live_at = %(at)s, last_checked_at = %(at)s, "
            "state_version = 7, next_check_at = %(next)s WHERE project_id = %(id)s",
            {"at": NOW, "next": NOW + timedelta(hours=5), "id": first.project.id},
        )
    before = history(ledger, first.project.id)
    second = run(ledger, path, "again", "example.com")
    assert (second.counts.accepted, second.counts.duplicate, second.counts.already_known) == (0, 2, 2)
    assert rejected(second) == []  # nothing is wrong with them
    items = imports.run_items(ledger, second.import_run_id).to_pylist()
    assert [(item["line_number"], item["result"], item["reason"]) for item in items] == [
        (2, "duplicate", "already_known"), (3, "duplicate", "already_known"),
    ]  # fmt: skip
    assert history(ledger, first.project.id) == before
    assert (first.project.id, len(second.targets)) == (second.project.id, 1)


def history(ledger: Ledger, project_id: bytes) -> list[tuple]:  # type: ignore[type-arg]
    with ledger.transaction() as tx:
        return tx.rows(
            "SELECT id, current_state, ever_live, last_seen_live_at, last_checked_at, state_version, next_check_at, first_seen_at, "
            "consecutive_failures, any_target FROM backlinks WHERE project_id = %(id)s ORDER BY id",
            {"id": project_id},
        )


def test_due_now_or_spread(ledger: Ledger, tmp_path: Path) -> None:
    path = file(tmp_path, "due.csv", "source,target\n" + "".join(f"https://a{i}.example/,{T}\n" for i in range(300)))
    spread = run(ledger, path, "spread", "example.com", interval=timedelta(hours=10))
    first, last, distinct = one(
        ledger,
        "SELECT MIN(next_check_at), MAX(next_check_at), COUNT(DISTINCT next_check_at) FROM backlinks WHERE project_id = %(id)s",
        id=spread.project.id,
    )
    assert NOW <= first < NOW + timedelta(hours=2)
    assert NOW + timedelta(hours=8) < last <= NOW + timedelta(hours=10)
    assert distinct > 250
    at_once = run(ledger, path, "at once", "example.com", due_now=True)
    assert one(
        ledger,
        "SELECT MIN(next_check_at), MAX(next_check_at) FROM backlinks WHERE project_id = %(id)s",
        id=at_once.project.id,
    ) == (NOW, NOW)


def test_default_alert_rule(ledger: Ledger, tmp_path: Path) -> None:
    path = file(tmp_path, "alert.csv", f"source,target\nhttps://a.example/1,{T}\n")
    channel = {"channel": "webhook", "destination": "https://hooks.example/x"}
    for _ in range(2):
        report = run(ledger, path, "alert", "example.com", channels=(channel,), strict=True)
    rules = projects.alert_rules(ledger, [report.project.id]).to_pylist()
    assert [rule["name"] for rule in rules] == ["default"]
    assert "https://hooks.example/x" in rules[0]["channels"]
    assert set(json.loads(rules[0]["event_types"])) < set(EVENT_TYPES)
    assert rule_problems(rules[0]["event_types"], rules[0]["filters"], rules[0]["channels"]) == []
    assert report.project.is_strict
    assert all(target.is_strict for target in report.targets)


def test_truncated_gzip_is_partial(ledger: Ledger, tmp_path: Path) -> None:
    packed = gzip.compress(
        ("source,target\n" + "".join(f"https://a.example/{i * 7919},{T}\n" for i in range(5_000))).encode()
    )
    path = tmp_path / "cut.csv.gz"
    path.write_bytes(packed[: len(packed) // 2])
    report = run(ledger, path, "cut", "example.com")
    assert report.damage is not None
    assert "gzip is cut off after" in report.damage
    assert 500 < report.counts.accepted < 5_000
    path.write_bytes(packed)
    whole = run(ledger, path, "cut", "example.com")
    assert whole.counts.rows == 5_000
    assert len(edges(ledger, "cut")) == report.counts.accepted + whole.counts.accepted


def test_rejects_cannot_be_written(ledger: Ledger, tmp_path: Path) -> None:
    path = file(tmp_path, "x.csv", f"source,target\nhttps://a.example/1,{T}\n")
    options = ImportOptions(
        project="nowhere", targets=(parse_target("example.com"),), rejects=tmp_path / "none" / "r.csv"
    )
    with pytest.raises(
        ImportFileError, match=r"r\.csv cannot be written: No such file or directory; name another place with --rejects"
    ):
        import_file(ledger, path, options, clock=FixedClock(NOW))
    assert projects.find_project(ledger, tenant_id=keys.tenant_id("default"), name="nowhere") is None


def big(folder: Path, rows: int) -> Path:
    """A file in which every 10th row repeats the one before it and every 10th is invalid."""
    path = folder / "big.csv"
    with path.open("w") as out:
        out.write("source,target\n")
        for i in range(rows):
            out.write(f"https://a{i % 97}.example/{i - (i % 10 == 1)},{T}\n" if i % 10 else f"broken {i},{T}\n")
    return path


def expected_edges(path: Path) -> int:
    return len({line for line in path.read_text().splitlines()[1:] if line.startswith("https:")})


def test_two_imports_of_one_file_at_once(ledger_settings: LedgerSettings, ledger: Ledger, tmp_path: Path) -> None:
    path = big(tmp_path, 4_000)

    def work(number: int) -> ImportReport:
        options = ImportOptions(
            project="race", targets=(parse_target("example.com"),), rejects=tmp_path / "race.rejects.csv"
        )
        with Ledger(ledger_settings) as own:
            return import_file(own, path, options, clock=FixedClock(NOW))

    with ThreadPoolExecutor(2) as pool:
        reports = list(pool.map(work, range(2)))
    total = len(edges(ledger, "race"))
    assert total == expected_edges(path)
    assert sum(report.counts.accepted for report in reports) == total
    for report in reports:
        counts = report.counts
        assert counts.rows == 4_000 == counts.accepted + counts.duplicate + counts.invalid
    assert [p.name for p in tmp_path.iterdir() if p.name.endswith(".part")] == []


def test_killed_import_is_completed_by_importing_again(
    ledger_settings: LedgerSettings, ledger: Ledger, tmp_path: Path
) -> None:
    path = big(tmp_path, 5_000)
    program = textwrap.dedent("""
        import json, sys
        from pathlib import Path
        from transforms.clock import WallClock
        from transforms.targets import parse_target
        from warehouse.imports import reader
        from warehouse.imports.run import ImportOptions, import_file
        from warehouse.ledger import Ledger
        from warehouse.ledger.config import LedgerSettings
        reader.BLOCK_LINES = 500
        settings = LedgerSettings.model_validate(json.loads(sys.stdin.readline()))
        options = ImportOptions(project="killed", targets=(parse_target("example.com"),), rejects=Path(sys.argv[2]))
        import_file(Ledger(settings), Path(sys.argv[1]), options, clock=WallClock(),
                    progress=lambda now: (print(now.counts.rows, flush=True), sys.stdin.readline()))
    """)
    raw = ledger_settings.model_dump(mode="json") | {"password": ledger_settings.password.get_secret_value()}
    child = subprocess.Popen(
        [sys.executable, "-c", program, str(path), str(tmp_path / "r.csv")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert child.stdin is not None
        assert child.stdout is not None
        child.stdin.write(json.dumps(raw) + "\n")
        child.stdin.flush()
        assert int(child.stdout.readline()) > 0  # one batch is in, others are under way; it waits for us
        os.kill(child.pid, signal.SIGKILL)
    finally:
        child.wait(30)
        for pipe in (child.stdin, child.stdout):
            if pipe is not None:
                pipe.close()
    assert not (tmp_path / "r.csv").exists()
    report = run(ledger, path, "killed", "example.com")
    assert report.counts.rows == 5_000
    assert report.counts.reasons["already_known"] > 0
    runs = one(
        ledger,
        "SELECT SUM(status = 'failed' AND error = 'killed before its end'), COUNT(*) FROM import_runs WHERE project_id = %(id)s",
        id=report.project.id,
    )
    assert (int(runs[0]), runs[1]) == (1, 2)
    assert (
        len(edges(ledger, "killed"))
        == expected_edges(path)
        == report.counts.accepted + report.counts.reasons["already_known"]
    )


def test_interval_and_project_name_are_checked(ledger: Ledger, tmp_path: Path) -> None:
    path = file(tmp_path, "x.csv", f"source,target\nhttps://a.example/1,{T}\n")
    for options in ({"project": " "}, {"project": "x", "interval": timedelta(days=8)}):
        with pytest.raises(PermanentError, match=r"name of 1 to 255|between 1 minute and 7 days"):
            import_file(
                ledger, path, ImportOptions(targets=(parse_target("example.com"),), **options), clock=FixedClock(NOW)
            )  # type: ignore[arg-type]
