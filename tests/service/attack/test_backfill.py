"""Backfills of an old window after a parser fix: what later windows know better stays as it is."""

from __future__ import annotations

from datetime import datetime, timedelta

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from tests.fixtures.scene import Scene
from transforms.schemas import LINK_MANIFESTS, OCCURRENCES, PAGE_FETCHES
from transforms.windows import Window

pytestmark = pytest.mark.service

TARGET = "http://shop.test/tools"
STAYS, TOLD_THEN, TOLD_NOW = "http://a.test/page", "http://b.test/page", "http://c.test/page"


def occurrences(scene: Scene) -> dict[str, tuple[bool, datetime, datetime]]:
    sql = (
        "SELECT o.anchor_text, o.is_live, o.first_seen_at, o.last_seen_at FROM backlink_occurrences AS o "
        "JOIN backlinks AS b ON b.id = o.backlink_id JOIN urls AS s ON s.id = b.source_url_id "
        "WHERE s.normalized_url = %(source)s"
    )
    return {str(row[0]): (bool(row[1]), row[2], row[3]) for row in scene.rows(sql, source=STAYS)}


def next_checks(scene: Scene) -> dict[str, datetime]:
    sql = "SELECT s.normalized_url, b.next_check_at FROM backlinks AS b JOIN urls AS s ON s.id = b.source_url_id"
    return dict(scene.rows(sql))  # type: ignore[arg-type]


def test_an_old_window_folded_again_takes_nothing_from_later_ones(scene: Scene) -> None:
    scene.links("http://shop.test/tools")
    second = f'<p>And <a href="{TARGET}">once more</a>.'
    scene.links(STAYS, TARGET, more=second)
    scene.put(TOLD_THEN, "busy", 503, retry_after="6000")
    scene.links(TOLD_NOW, TARGET)
    scene.add([(url, TARGET) for url in (STAYS, TOLD_THEN, TOLD_NOW)], "shop.test")
    old = scene.open_window()
    scene.claim(old)
    scene.crawl(old)
    # A parser that overlooks the second link, and another reading of the busy page, to be set right later.
    right = {each: scene.platform.datasets.read(each, old, 0) for each in (LINK_MANIFESTS, PAGE_FETCHES)}
    parts = scene.platform.datasets.part_keys(PAGE_FETCHES, old, 0)
    links = right[LINK_MANIFESTS]
    scene.platform.datasets.write_part(
        LINK_MANIFESTS, old, 0, links.filter(pc.not_equal(links["anchor_text"], "once more")), "all"
    )
    slow = pa.array([each + 1 for each in right[PAGE_FETCHES]["elapsed_ms"].to_pylist()], pa.uint32())
    fetches = right[PAGE_FETCHES]
    scene.platform.objects.delete(parts)
    scene.platform.datasets.write_part(
        PAGE_FETCHES, old, 0,
        fetches.set_column(fetches.column_names.index("elapsed_ms"), fetches.schema.field("elapsed_ms"), slow), "all",
    )  # fmt: skip
    scene.fold(old)
    scene.write_back(old)
    assert set(occurrences(scene)) == {"the tools"}

    later = scene.start + timedelta(hours=2)
    scene.clock(later)
    scene.links(STAYS, TARGET)
    scene.put(TOLD_THEN, "broken", 500)
    scene.put(TOLD_NOW, "busy", 503, retry_after="20000")
    scene.make_due()
    scene.run()
    seen, checks, versions = occurrences(scene), next_checks(scene), scene.versions()
    assert seen == {"the tools": (True, scene.start, later)}
    assert checks[TOLD_NOW] - later >= timedelta(seconds=20_000)
    assert checks[TOLD_THEN] < later + timedelta(hours=1)  # the next window

    # Retention took the later window's occurrences; then the old window is set right.
    scene.platform.objects.delete(
        scene.platform.datasets.part_keys(OCCURRENCES, Window(old.start + timedelta(hours=2)))
    )
    for dataset, table in right.items():
        scene.platform.datasets.write_part(dataset, old, 0, table, "all")
    scene.clock(later + timedelta(minutes=5))
    scene.fold(old)
    scene.write_back(old)
    assert all(version > versions[edge] for edge, version in scene.versions().items())
    assert occurrences(scene) == seen | {"once more": (False, scene.start, scene.start)}
    assert next_checks(scene) == checks
