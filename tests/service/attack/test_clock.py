"""Windows of a quarter of an hour, and a clock that is set back and that jumps: one check per source and window, no
hammering, confirmations in their time."""

from __future__ import annotations

from datetime import timedelta

import pytest

from tests.fixtures.scene import Scene
from transforms.windows import Window

pytestmark = pytest.mark.service

TARGET, PAGE = "http://shop.test/tools", "http://a.test/page"
ONCE = sorted([PAGE, TARGET])


def asked(scene: Scene, windows: list[Window] | None = None) -> list[str]:
    """Claim and crawl these windows (or the open one); what was asked for."""
    scene.web.asked.clear()
    for window in windows or [scene.open_window()]:
        scene.claim(window)
        scene.crawl(window)
    return sorted(scene.web.asked)


def test_a_clock_that_is_set_and_windows_of_a_quarter_of_an_hour(scene: Scene) -> None:
    quarter = scene.platform.window_length = timedelta(minutes=15)
    scene.links(TARGET)
    scene.links(PAGE, TARGET)
    scene.clock(scene.start - timedelta(days=2))
    scene.add([(PAGE, TARGET)], "shop.test")
    scene.clock(scene.start)
    first = scene.open_window()
    assert (first.start.minute, first.length) == (0, quarter)
    assert asked(scene) == ONCE
    scene.fold(first)
    scene.write_back(first)

    # NTP sets the clock back by minutes, then somebody by a day: what is known stays known, what is due is asked.
    scene.clock(scene.start - timedelta(minutes=5))
    assert asked(scene) == []
    scene.clock(scene.start - timedelta(days=1))
    assert asked(scene) == []
    scene.make_due()
    assert asked(scene) == ONCE
    yesterday = scene.open_window()
    scene.fold(yesterday)
    scene.write_back(yesterday)
    assert scene.states() == {("P", PAGE, TARGET): ("live", 0, "link_found")}

    # A miss. Its confirmation is 30 to 120 minutes later, in a later window, and not a minute before.
    scene.clock(scene.start + timedelta(hours=1))
    scene.links(PAGE)
    scene.make_due()
    scene.run()
    ((confirm, due),) = scene.rows("SELECT confirm_not_before, next_check_at FROM backlinks")
    assert timedelta(minutes=30) <= confirm - scene.now <= timedelta(minutes=120)
    assert due == confirm
    scene.clock(confirm - timedelta(seconds=1))
    scene.make_due()
    assert PAGE not in asked(scene)
    scene.clock(confirm)
    assert PAGE in asked(scene)
    scene.fold(scene.open_window())
    scene.write_back(scene.open_window())
    assert scene.states() == {("P", PAGE, TARGET): ("lost", 2, "link_absent")}

    # Eight days later (no edge waits longer than seven): the missed windows are caught up with in one check.
    scene.clock(confirm + timedelta(days=8))
    now = scene.open_window()
    missed = [Window(now.start - number * quarter, quarter) for number in (96, 2, 1)]
    assert asked(scene, [*missed, now]) == ONCE
