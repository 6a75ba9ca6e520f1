"""Stage 5 in batches: however a window is cut, it says the same, and files of another cut do not stay."""

from __future__ import annotations

import pytest

from assets import link_observations
from tests.fixtures.scene import Scene
from transforms.schemas import LINK_OBSERVATIONS, OCCURRENCES, Dataset
from transforms.windows import Window

pytestmark = pytest.mark.service

TARGET = "http://shop.test/tools"
SOURCES = [f"http://blog{number}.test/post" for number in range(6)]


def test_a_window_is_observed_alike_in_batches_of_any_size(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    new = "http://shop.test/new"
    for source in SOURCES:
        scene.links(source, TARGET, more=f'<a href="{new}">new</a>' if source == SOURCES[4] else "")
    scene.links(SOURCES[1])
    scene.add([(source, TARGET) for source in SOURCES], "shop.test")
    window = scene.open_window()
    scene.claim(window)
    scene.crawl(window)
    store = scene.platform.datasets

    def rows(dataset: Dataset) -> list[dict]:
        table = store.read(dataset, window).sort_by([(name, "ascending") for name in dataset.sort_by])
        return table.drop_columns(["ingest_version"] if dataset is LINK_OBSERVATIONS else []).to_pylist()

    def parts(window: Window) -> list[int]:
        return [len(store.part_keys(dataset, window)) for dataset in (LINK_OBSERVATIONS, OCCURRENCES)]

    whole, counts = link_observations.observe(scene.platform, window)
    assert parts(window) == [1, 1]
    assert (counts["edges"], counts["found"], counts["missing"], counts["discovered"]) == (7, 6, 1, 1)
    assert (counts["loaded_new"], counts["loaded_corrected"]) == (7, 0)
    said = rows(LINK_OBSERVATIONS), rows(OCCURRENCES)
    assert len(said[0]) == 7
    assert len(said[1]) == 6

    monkeypatch.setattr(link_observations, "BATCH_ROWS", 4)
    again, counts = link_observations.observe(scene.platform, window)
    assert parts(window)[0] > 3
    assert (rows(LINK_OBSERVATIONS), rows(OCCURRENCES)) == said
    assert sorted(again["observation_id"].to_pylist()) == sorted(whole["observation_id"].to_pylist())
    assert (counts["edges"], counts["found"], counts["missing"], counts["loaded_new"]) == (7, 6, 1, 0)
    assert counts["loaded_corrected"] == 0, "the same evidence has the same hash"

    monkeypatch.undo()
    link_observations.observe(scene.platform, window)
    assert parts(window) == [1, 1], "nothing stays of the smaller batches"
    assert (rows(LINK_OBSERVATIONS), rows(OCCURRENCES)) == said
