"""Links through the source's own redirector over several windows: what is asked, what is believed, and what is never lost on
an old answer. And a page that collapses for good."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta

import pytest

from assets import link_observations, redirect_checks
from assets.partition import WindowShard
from tests.fixtures.scene import Scene
from transforms.schemas import LINK_OBSERVATIONS, LINK_REDIRECTS

pytestmark = pytest.mark.service

TARGET = "http://shop.test/tools"
HOUR, DAY = timedelta(hours=1), timedelta(days=1)


def at(scene: Scene, after: timedelta) -> None:
    scene.clock(scene.start + after)
    scene.make_due()


def page(scene: Scene, url: str, *hrefs: str) -> None:
    scene.links(url, more="".join(f'<p>Our <a href="{href}">offer</a>.' for href in hrefs))


def redirect(scene: Scene, url: str, to: str) -> None:
    scene.put(url, "", 302, Location=to)


def evidence(scene: Scene) -> dict[str, tuple[str, str]]:
    """What the open window says of each source, without the fold and the write-back."""
    window = scene.open_window()
    scene.claim(window)
    scene.crawl(window)
    link_observations.observe(scene.platform, window)
    rows = scene.platform.datasets.read(LINK_OBSERVATIONS, window).to_pylist()
    return {row["source_url"]: (row["evidence"], row["evidence_reason"]) for row in rows}


def state(scene: Scene, source: str) -> tuple[str, int, str | None]:
    return scene.states()["P", source, TARGET]


def test_a_redirector_is_asked_once_for_all_pages_and_not_again_while_its_answer_is_believed(scene: Scene) -> None:
    first, second, go = "http://deals.test/a", "http://deals.test/b", "http://deals.test/go/1"
    page(scene, first, "/go/1")
    page(scene, second, "/go/1")
    redirect(scene, go, f"{TARGET}?utm_source=deals")
    scene.add([(first, TARGET), (second, TARGET)], "shop.test")
    scene.run()
    assert state(scene, first) == state(scene, second) == ("live", 0, "link_found_via_redirect")
    assert Counter(scene.web.asked)[go] == 1
    assert f"{TARGET}?utm_source=deals" not in scene.web.asked, "the target is not asked by way of a redirector"

    # in a window of the same week nobody is asked, and the link is still found
    at(scene, 3 * DAY)
    redirect(scene, go, "http://deals.test/a")
    scene.run()
    assert Counter(scene.web.asked)[go] == 1
    assert state(scene, first) == ("live", 0, "link_found_via_redirect")

    # The week is over: it is asked, and leads elsewhere now. Both misses stand on a request of their own.
    at(scene, 8 * DAY)
    scene.run()
    assert state(scene, first) == ("live", 1, "link_absent")
    assert Counter(scene.web.asked)[go] == 2
    at(scene, 8 * DAY + 2 * HOUR)
    scene.run()
    assert state(scene, first) == ("lost", 2, "link_absent")
    assert Counter(scene.web.asked)[go] == 3
    assert [row[2:] for row in scene.alerts() if row[2] == "backlink.lost"] == [("backlink.lost", False, 1)] * 2

    # Lost: an answer of this week is enough to stay so; after it, a proof finds the link again.
    redirect(scene, go, TARGET)
    at(scene, 9 * DAY)
    assert set(evidence(scene).values()) == {("missing", "link_absent")}
    assert Counter(scene.web.asked)[go] == 3
    at(scene, 16 * DAY)
    assert set(evidence(scene).values()) == {("found", "link_found_via_redirect")}
    assert Counter(scene.web.asked)[go] == 4


def test_a_check_that_was_never_made_is_no_miss_and_a_window_long_over_asks_nobody(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, go = "http://deals.test/late", "http://deals.test/go/late"
    page(scene, source, "/go/late")
    redirect(scene, go, TARGET)
    scene.add([(source, TARGET)], "shop.test")
    scene.run()
    assert state(scene, source)[0] == "live"

    # The process dies after the pages of a later window are parsed, and comes back two days after its end.
    at(scene, 10 * DAY)
    window = scene.open_window()
    scene.claim(window)
    with monkeypatch.context() as dying:
        dying.setattr(redirect_checks, "check", lambda *_: LINK_REDIRECTS.empty())
        scene.crawl(window)
    scene.clock(scene.start + 12 * DAY)
    asked = Counter(scene.web.asked)[go]
    (row,) = redirect_checks.check(scene.platform, WindowShard(window, 0)).to_pylist()
    assert (row["outcome"], row["reason"], row["is_conclusive"]) == ("deferred", "not_fetched", False)
    (observed,) = link_observations.observe(scene.platform, window)[0].to_pylist()
    assert (observed["evidence"], observed["evidence_reason"]) == ("none", "redirect_unchecked")
    assert Counter(scene.web.asked)[go] == asked


def test_a_page_with_many_redirectors_asks_five_a_window_and_goes_on_where_it_stopped(scene: Scene) -> None:
    source = "http://deals.test/many"
    page(scene, source, *(f"/go/{number}" for number in range(12)))
    for number in range(12):
        redirect(scene, f"http://deals.test/go/{number}", TARGET if number == 11 else "http://deals.test/many")
    scene.add([(source, TARGET)], "shop.test")
    for hours, asked, found in ((0, 5, False), (2, 10, False), (4, 12, True)):
        at(scene, hours * HOUR)
        (said,) = evidence(scene).values()
        assert sum("/go/" in url for url in scene.web.asked) == asked
        assert said == (("found", "link_found_via_redirect") if found else ("missing", "link_absent"))


def test_a_page_that_collapses_for_good_is_a_miss_a_day_later_and_not_before(scene: Scene) -> None:
    source = "http://garden.test/links"
    scene.links(source, TARGET)
    scene.add([(source, TARGET)], "shop.test")
    assert set(evidence(scene).values()) == {("found", "link_found")}
    scene.put(source, "<!doctype html><title>Garden</title><p>Soon here again.")
    said = []
    for hours in (2, 9, 15, 21, 27, 29):
        at(scene, hours * HOUR)
        said += evidence(scene).values()
    assert said == [("none", "link_collapse")] * 4 + [("missing", "link_absent")] * 2
