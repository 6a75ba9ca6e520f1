"""Two tenants watch the same link, one of them goes in the middle of a window, and pages hold links that nobody asked for."""

from __future__ import annotations

import csv
import html
import io
import json
from datetime import timedelta

import pytest

from orchestration import report
from tests.fixtures.scene import Scene
from warehouse.ledger import keys, projects

pytestmark = pytest.mark.service

TARGET, OTHER = "http://shop.test/tools", "http://shop.test/rakes"
WRITTEN = "http://i❤.test/" + "a" * 2_025
PAGE = "http://xn--i-7iq.test/" + "a" * 2_025
"""A host of an emoji, and more than 2,000 characters."""
ANCHOR = '=HYPERLINK("http://e.test") <img src=x> **b** [red]x[/] \x1b[2J عربي'
"""What a spreadsheet, a page, a chat and a terminal would each take for something else."""
TABLES = ("backlinks", "crawl_runs", "crawl_pages", "alert_events", "alert_rules", "project_backlink_daily_stats")


def watch(scene: Scene, project: str, tenant: str) -> bytes:
    """The project's id; it is told of everything."""
    scene.add([(WRITTEN, TARGET)], "shop.test", project=project, tenant=tenant)
    found = projects.find_project(scene.platform.ledger, tenant_id=keys.tenant_id(tenant), name=project)
    assert found is not None
    projects.add_alert_rule(
        scene.platform.ledger, found.id, name="all", event_types=["backlink.new"],
        channels=[{"channel": "email", "destination": f"{tenant}@acme.test"}], now=scene.now,
    )  # fmt: skip
    return found.id


def delete(scene: Scene, project: bytes) -> None:
    assert projects.delete_project(scene.platform.ledger, project, actor="test", now=scene.now)


def left_of(scene: Scene, project: bytes) -> dict[str, int]:
    counts = {
        table: scene.rows(f"SELECT COUNT(*) FROM {table} WHERE project_id = %(project)s", project=project)[0][0]
        for table in TABLES
    }
    return {table: count for table, count in counts.items() if count}


def test_two_tenants_and_deletions_in_mid_window(scene: Scene) -> None:
    scene.links(TARGET)
    scene.links(PAGE, TARGET, more=f'<p>Also <a href="{OTHER}">{html.escape(ANCHOR)}</a>.')
    kept = watch(scene, "Kept", "one")
    gone = {stage: watch(scene, f"Gone {stage}", "two") for stage in ("claimed", "observed", "decided", "written")}
    window = scene.open_window()
    scene.claim(window)
    delete(scene, gone["claimed"])
    scene.crawl(window)
    assert scene.web.asked.count(PAGE) == 1
    scene.fold(window)
    delete(scene, gone["observed"])
    scene.decide(window)
    delete(scene, gone["decided"])
    counts = scene.write_back(window)
    delete(scene, gone["written"])

    # The link that nobody asked for is an edge of whoever watches the shop, told once.
    assert counts["new"] >= 4
    both = {("Kept", PAGE, TARGET): ("live", 0, "link_found"), ("Kept", PAGE, OTHER): ("live", 0, "link_found")}
    assert scene.states() == both
    told = [("Kept", PAGE, "backlink.new", False, 1)] * 2
    assert scene.alerts() == told
    outbox = "SELECT COUNT(*) FROM transactional_outbox WHERE topic = 'alert-events' AND partition_key = %(key)s"
    assert scene.rows(outbox, key=kept.hex()) == [(2,)]
    assert {stage: left_of(scene, project) for stage, project in gone.items()} == {stage: {} for stage in gone}

    # What the page says reaches people as it was said, and does nothing on its way.
    payload = "SELECT e.payload FROM alert_events AS e JOIN backlinks AS b ON b.id = e.backlink_id WHERE b.anchor_text LIKE '=%%'"
    ((said,),) = scene.rows(payload)
    assert json.loads(said)["link"]["anchor_text"] == ANCHOR
    assert json.loads(said)["source"]["url"] == PAGE
    links = report.edges(scene.platform, kept)
    assert set(links["source_url"]) == {PAGE}
    sheet = list(csv.DictReader(io.StringIO(report._text(links, report.Output.CSV))))
    assert ANCHOR.replace("\x1b", "\ufffd") in {row["anchor_text"].removeprefix("'") for row in sheet}
    assert not [cell for row in sheet for cell in row.values() if cell.startswith("=")]

    # The window once more, and later than it lasts: nobody comes back, nobody is told again.
    versions = scene.versions()
    scene.clock(scene.start + timedelta(hours=3))
    scene.run(window)
    assert scene.states() == both
    assert scene.alerts() == told
    assert scene.versions() == versions
    assert scene.rows(outbox, key=kept.hex()) == [(2,)]
    assert {stage: left_of(scene, project) for stage, project in gone.items()} == {stage: {} for stage in gone}
    assert scene.web.asked.count(PAGE) == 1
