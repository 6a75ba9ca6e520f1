"""The number of shards is changed between windows and within one: nothing is asked twice, nothing is lost, and a window
stays split as it was when it began."""

from __future__ import annotations

from datetime import timedelta

import pytest

from tests.fixtures.scene import Scene
from transforms.windows import shard_of_domain

pytestmark = pytest.mark.service

TARGET = "http://shop.test/tools"


def test_shards_come_and_go(scene: Scene) -> None:
    scene.platform.shards = 4
    scene.links(TARGET)
    sources = [f"http://host{number}.test/page" for number in range(12)]
    assert {shard_of_domain(f"host{number}.test", 4) for number in range(12)} == {0, 1, 2, 3}
    for source in sources:
        scene.links(source, TARGET)
    scene.add([(source, TARGET) for source in sources], "shop.test")

    # 4 → 2 when two shards of the window are done and one is only claimed.
    window = scene.open_window()
    scene.claim(window, [0, 1, 2])
    scene.crawl(window, [0, 1])
    scene.platform.shards = 2
    assert scene.claim(window) == 12
    scene.crawl(window)
    scene.fold(window)
    scene.write_back(window)
    assert sorted(scene.web.asked) == sorted([*sources, TARGET])
    assert set(scene.states().values()) == {("live", 0, "link_found")}
    assert scene.claim(window, [4, 7]) == 0  # numbers that it never had

    # 2 → 8 in the next one; then both again.
    scene.clock(scene.start + timedelta(hours=1))
    scene.make_due()
    scene.platform.shards = 8
    following = scene.open_window()
    scene.claim(following)
    scene.crawl(following)
    assert sorted(scene.web.asked) == sorted([*sources, TARGET] * 2)
    scene.clock(scene.start + timedelta(hours=2))
    scene.platform.shards = 2
    for each in (window, following):
        assert scene.claim(each) == 12
        scene.crawl(each)
    assert len(scene.web.asked) == 26
    scene.fold(following)
    scene.write_back(following)
    assert set(scene.states().values()) == {("live", 0, "link_found")}
    assert scene.rows("SELECT COUNT(*) FROM backlink_observations") == [(24,)]
