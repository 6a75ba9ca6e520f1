"""The comparison finds what is wrong, counts it, and cries loudest about a LOST that is not true."""

from __future__ import annotations

from typing import Any

import pytest
from rich.console import Console

from orchestration.demo.scenario import Scenario, compare, compare_targets
from orchestration.demo.scenario.model import parse_scenario
from orchestration.demo.scenario.truth import Comparison

SMALL = parse_scenario("""
host = [{ name = "a.test", site = "A" }, { name = "b.test", site = "B" }]
project = [{ key = "p", name = "P", export = "generic", target = [{ scope = "domain", value = "b.test" }] }]
totals = {}

[[page]]
url = "http://a.test/1"
[[page.edge]]
project = "p"
target = "http://b.test/"
truth = "0 found live NEW anchor_text=hello tolerated=[www]; 1 found live ~rel; 2 missing live; 3- missing lost"

[[page]]
url = "http://a.test/2"
[[page.edge]]
project = "p"
target = "http://b.test/"
truth = "0 found live NEW; 1 none:http_503|origin_backoff live; 2 missing live; 3 missing lost LOST; 4- missing lost"

[[target]]
url = "http://b.test/"
truth = "0 ok http_status=200; 1- error http_status=404"
""")


def reported(scenario: Scenario, window: int) -> list[dict[str, Any]]:
    """The truth of a window in the form of reported rows."""
    rows = []
    for edge in scenario.edges:
        if (truth := edge.truth.get(window)) is not None:
            rows.append(
                {
                    "window": window, "project": edge.project, "source_url": edge.source, "target_url": edge.target,
                    "evidence": truth.evidence, "evidence_reason": sorted(truth.reasons)[0], "state": truth.state,
                    "event": truth.event, "changes": sorted(truth.changes), **truth.properties,
                }
            )  # fmt: skip
    return rows


def shown(comparison: Comparison) -> str:
    console = Console(width=160, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    for table in (comparison.events_table(), comparison.aspects_table(), comparison.differences_table()):
        console.print(table)
    return console.export_text()


def test_what_is_true_has_no_difference() -> None:
    rows = [row for window in range(7) for row in reported(SMALL, window)]
    result = compare(SMALL, rows)
    assert result.ok
    assert result.expected_events == result.right_events == {"new": 2, "lost": 1, "recovered": 0}
    assert result.unexpected_events == {"new": 0, "lost": 0, "recovered": 0}
    assert result.judged == {"event": 14, "evidence": 14, "state": 14, "changes": 14, "reason": 14, "properties": 2}


def test_only_the_given_windows_are_judged() -> None:
    assert compare(SMALL, reported(SMALL, 0), windows=[0]).ok
    assert compare(SMALL, reported(SMALL, 0), windows=[0, 1]).wrong("evidence") == 2


def test_a_false_loss_is_told_first() -> None:
    rows = reported(SMALL, 1)
    rows[1] |= {"evidence": "missing", "evidence_reason": "link_absent", "state": "lost", "event": "lost"}
    result = compare(SMALL, rows, windows=[1])
    assert {difference.what for difference in result.false_losses} == {"event", "state"}
    assert result.unexpected_events["lost"] == 1
    assert {difference.what for difference in result.differences} == {"event", "evidence", "state", "evidence_reason"}
    text = shown(result)
    assert text.index("http://a.test/2") > text.index("Not as it is true")
    assert "LOST" in text
    assert "window 1, http://a.test/2 -> http://b.test/: state should be live, was lost" in map(str, result.differences)


def test_a_missing_event_is_counted() -> None:
    rows = reported(SMALL, 3)
    rows[1] |= {"event": "none"}
    result = compare(SMALL, rows, windows=[3])
    assert result.missing_events == 1
    assert not result.false_losses


@pytest.mark.parametrize(
    ("change", "aspect", "what"),
    [
        ({"anchor_text": "good bye"}, "properties", "anchor_text"),
        ({"tolerated": []}, "properties", "tolerated"),
        ({"changes": ["rel"]}, "changes", "changes"),
        ({"evidence_reason": "ok"}, "reason", "evidence_reason"),
    ],
)
def test_each_aspect_is_judged(change: dict[str, Any], aspect: str, what: str) -> None:
    rows = reported(SMALL, 0)
    rows[0] |= change
    (difference,) = compare(SMALL, rows, windows=[0]).differences
    assert (difference.aspect, difference.what) == (aspect, what)


def test_either_of_two_reasons_will_do() -> None:
    rows = reported(SMALL, 1)
    for reason in ("http_503", "origin_backoff"):
        rows[1]["evidence_reason"] = reason
        assert compare(SMALL, rows, windows=[1]).ok


def test_unknown_absent_and_doubled_edges_are_differences() -> None:
    rows = reported(SMALL, 0)
    stranger = rows[0] | {"source_url": "http://a.test/3"}
    result = compare(SMALL, [rows[0], rows[0], stranger], windows=[0])
    assert sorted(difference.what for difference in result.differences) == [
        "an edge that is not in the truth", "event", "event", "event", "evidence", "reported twice",
    ]  # fmt: skip
    assert result.missing_events == 1
    assert result.unexpected_events["new"] == 2


def test_targets() -> None:
    rows = [
        {"window": 0, "target_url": "http://b.test/", "health": "ok", "http_status": 200},
        {"window": 1, "target_url": "http://b.test/", "health": "ok", "http_status": 404},
        {"window": 1, "target_url": "http://elsewhere.test/", "health": "ok", "http_status": 200},
    ]
    assert compare_targets(SMALL, rows, windows=[0]).ok
    (difference,) = compare_targets(SMALL, rows, windows=[0, 1]).differences
    assert (difference.window, difference.what, difference.expected, difference.actual) == (1, "health", "error", "ok")
    (absent,) = compare_targets(SMALL, rows, windows=[2]).differences
    assert absent.actual is None
    merged = compare(SMALL, reported(SMALL, 2), windows=[2]).merge(compare_targets(SMALL, rows, windows=[1]))
    assert merged.judged["target health"] == 2
    assert len(merged.differences) == 1
