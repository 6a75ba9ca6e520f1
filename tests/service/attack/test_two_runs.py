"""Two runs of one window at once, and files that break: no page is asked twice, no row is lost, no partition falls."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from assets import due_sources, link_manifests, page_fetches, target_health
from assets.partition import WindowShard
from orchestration import resources
from orchestration.demo import play as plays
from orchestration.demo.scenario import window_start
from orchestration.demo.web import asked_again
from transforms.schemas import DUE_SOURCES, LINK_MANIFESTS, PAGE_FETCHES, PAGE_MANIFESTS
from transforms.windows import Window

pytestmark = pytest.mark.service


def test_two_runs_of_a_window_ask_once_and_a_broken_file_is_parsed_again(new_play: Callable[[], plays.Play]) -> None:
    play = new_play()
    platforms = [resources.platform(play.at(0)) for _ in range(2)]
    first = platforms[0]
    at = WindowShard(Window(window_start(0), first.window_length), 0)

    def run(number: int) -> tuple[int, int]:
        due_sources.claim(platforms[number], at)
        fetched = page_fetches.fetch(platforms[number], at, refetch=False)
        return fetched.num_rows, target_health.check(platforms[number], at).num_rows

    try:
        with ThreadPoolExecutor(2) as pool:
            results = list(pool.map(run, range(2)))
        due = first.datasets.read(DUE_SOURCES, at.window, 0).num_rows
        assert due > 20
        assert results[0] == results[1]
        assert results[0][0] == due
        assert asked_again(play.web.requests()) == []
        answers = first.datasets.read(PAGE_FETCHES, at.window, 0)
        settled = answers.filter([outcome != "deferred" for outcome in answers["outcome"].to_pylist()])
        assert settled["source_url_id"].to_pylist() == list(dict.fromkeys(settled["source_url_id"].to_pylist()))

        pages, links, _ = link_manifests.parse(first, at)
        for dataset in (LINK_MANIFESTS, PAGE_MANIFESTS):
            (key,) = first.datasets.part_keys(dataset, at.window, 0)
            whole = first.objects.get(key)
            first.objects.put(key, whole[: len(whole) // 2])
            again_pages, again_links, reused = link_manifests.parse(first, at)
            assert reused == 0
            assert again_pages.sort_by("source_url_id").equals(pages.sort_by("source_url_id"))
            assert again_links.num_rows == links.num_rows

        # A damaged snapshot is no evidence, and does not stay to be confirmed by one 304 after the other.
        (key,) = first.datasets.part_keys(PAGE_MANIFESTS, at.window, 0)
        damaged = next(row["object_key"] for row in answers.to_pylist() if row["reason"] == "ok")
        first.objects.delete([key])
        first.objects.put(damaged, b"not what was fetched")
        mended, _, _ = link_manifests.parse(first, at)
        reasons = [row["reason"] for row in mended.to_pylist() if damaged.endswith(f"{row['content_hash'].hex()}.zst")]
        assert set(reasons) == {"artifact_unavailable"}
        assert first.snapshots.is_available([damaged]) == set()
    finally:
        for platform in platforms:
            platform.close()
