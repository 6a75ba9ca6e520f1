"""What was reported against what is true, edge by edge and window by window.

Here: the comparison and its tables. Not here: where the reported rows come from (the play reads them from ClickHouse),
nor any rule by which a state follows from evidence: both sides are given.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from rich.table import Table

from orchestration.demo.scenario.model import WINDOWS, Scenario

EVENTS = ("new", "lost", "recovered")
ASPECTS = ("evidence", "reason", "state", "event", "changes", "properties", "target health")


@dataclass(frozen=True)
class Difference:
    """One thing that was not reported as it is true. `aspect` is one of `ASPECTS`, `what` the column."""

    window: int
    project: str
    source: str
    target: str
    aspect: str
    what: str
    expected: Any
    actual: Any

    def __str__(self) -> str:
        edge = f"{self.source} -> {self.target}" if self.source else self.target
        return f"window {self.window}, {edge}: {self.what} should be {_shown(self.expected)}, was {_shown(self.actual)}"


@dataclass
class Comparison:
    judged: dict[str, int] = field(default_factory=dict)
    """Things compared, by aspect."""
    differences: list[Difference] = field(default_factory=list)
    expected_events: dict[str, int] = field(default_factory=lambda: dict.fromkeys(EVENTS, 0))
    right_events: dict[str, int] = field(default_factory=lambda: dict.fromkeys(EVENTS, 0))
    unexpected_events: dict[str, int] = field(default_factory=lambda: dict.fromkeys(EVENTS, 0))

    @property
    def ok(self) -> bool:
        return not self.differences

    @property
    def false_losses(self) -> list[Difference]:
        """LOST events, and lost states, that the truth does not hold: the worst error."""
        return [
            difference
            for difference in self.differences
            if difference.what in ("event", "state") and difference.actual == "lost"
        ]

    @property
    def missing_events(self) -> int:
        return sum(self.expected_events.values()) - sum(self.right_events.values())

    def wrong(self, aspect: str) -> int:
        return sum(difference.aspect == aspect for difference in self.differences)

    def note(self, aspect: str, count: int = 1) -> None:
        self.judged[aspect] = self.judged.get(aspect, 0) + count

    def merge(self, other: Comparison) -> Comparison:
        """This and another comparison (of targets, of other windows) as one."""
        merged = Comparison({**self.judged}, [*self.differences, *other.differences])
        for aspect, count in other.judged.items():
            merged.note(aspect, count)
        for name in ("expected_events", "right_events", "unexpected_events"):
            mine, theirs = getattr(self, name), getattr(other, name)
            setattr(merged, name, {event: mine[event] + theirs[event] for event in EVENTS})
        return merged

    def events_table(self) -> Table:
        """Events: expected by the truth, reported right, missing, and reported without cause."""
        table = Table("event", title="Events against the ground truth", title_justify="left")
        for heading in ("expected", "reported", "missing", "not true"):
            table.add_column(heading, justify="right")
        for event in EVENTS:
            expected, right, wrong = (
                self.expected_events[event],
                self.right_events[event],
                self.unexpected_events[event],
            )
            style = None if expected == right and not wrong else "bold red"
            table.add_row(event.upper(), str(expected), str(right), str(expected - right), str(wrong), style=style)
        return table

    def aspects_table(self) -> Table:
        """Everything else that was judged: evidence, reasons, states, property changes, columns, target health."""
        table = Table("judged", title="Everything against the ground truth", title_justify="left")
        for heading in ("compared", "right", "wrong"):
            table.add_column(heading, justify="right")
        for aspect in ASPECTS:
            compared, wrong = self.judged.get(aspect, 0), self.wrong(aspect)
            table.add_row(aspect, str(compared), str(compared - wrong), str(wrong), style="bold red" if wrong else None)
        return table

    def differences_table(self, limit: int = 40) -> Table:
        """The differences, false losses first."""
        worst = self.false_losses
        ordered = [*worst, *(difference for difference in self.differences if difference not in worst)]
        table = Table("window", "edge", "what", "true", "reported", title="Not as it is true", title_justify="left")
        for difference in ordered[:limit]:
            edge = f"{difference.source}\n{difference.target}" if difference.source else difference.target
            style = "bold red" if difference in worst else None
            table.add_row(
                str(difference.window),
                edge,
                difference.what,
                _shown(difference.expected),
                _shown(difference.actual),
                style=style,
            )
        if len(ordered) > limit:
            table.add_row("", f"… and {len(ordered) - limit} more", "", "", "")
        return table


def _shown(value: Any) -> str:
    if isinstance(value, (set, frozenset, list, tuple)):
        return ", ".join(sorted(map(str, value))) or "nothing"
    return "nothing" if value is None else str(value)


def _plain(value: Any) -> Any:
    """A reported value in the form the truth is written in: lists as sets, numpy-like scalars as Python's."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, (list, tuple, set, frozenset)):
        return frozenset(value)
    return value


def compare(
    scenario: Scenario, rows: Iterable[Mapping[str, Any]], windows: Iterable[int] = range(WINDOWS)
) -> Comparison:
    """Compare reported edges with the truth, for the given windows.

    A row is what was reported of one edge in one window: `window` (0 to 6), `project` (its key), `source_url`,
    `target_url`, `evidence`, `evidence_reason`, `state`, `event`, `changes`, and any further columns of
    `link_observations`, which are judged where the truth names them. An edge or window that is not reported, is
    reported twice, or is not in the truth is a difference.
    """
    result = Comparison()
    wanted = {
        (window, *edge.key): edge.truth[window] for edge in scenario.edges for window in windows if window in edge.truth
    }
    seen: set[tuple[int, str, str, str]] = set()
    for truth in wanted.values():
        result.note("event")
        if truth.event != "none":
            result.expected_events[truth.event] += 1
    for row in rows:
        key = (row["window"], row["project"], row["source_url"], row["target_url"])
        event = row["event"]
        expected = wanted.get(key)
        if expected is None or key in seen:
            what = "reported twice" if key in seen else "an edge that is not in the truth"
            result.differences.append(Difference(*key, "state", what, "nothing", f"{row['evidence']}, {row['state']}"))
            if event in EVENTS:
                result.unexpected_events[event] += 1
                result.differences.append(Difference(*key, "event", "event", "none", event))
            continue
        seen.add(key)
        if event == expected.event:
            if event in EVENTS:
                result.right_events[event] += 1
        else:
            result.differences.append(Difference(*key, "event", "event", expected.event, event))
            if event in EVENTS:
                result.unexpected_events[event] += 1
        pairs: list[tuple[str, str, Any, Any]] = [
            ("evidence", "evidence", expected.evidence, row["evidence"]),
            ("state", "state", expected.state, row["state"]),
            ("changes", "changes", expected.changes, _plain(row["changes"] or ())),
            *(
                ("properties", name, _plain(value), _plain(row.get(name)))
                for name, value in expected.properties.items()
            ),
        ]
        for aspect, what, should, was in pairs:
            result.note(aspect)
            if should != was:
                result.differences.append(Difference(*key, aspect, what, should, was))
        result.note("reason")
        if row["evidence_reason"] not in expected.reasons:
            result.differences.append(
                Difference(*key, "reason", "evidence_reason", expected.reasons, row["evidence_reason"])
            )
    for key, expected in wanted.items():
        if key not in seen:
            result.note("evidence")
            result.differences.append(Difference(*key, "evidence", "evidence", expected.evidence, None))
            if expected.event != "none":
                result.differences.append(Difference(*key, "event", "event", expected.event, None))
    return result


def compare_targets(
    scenario: Scenario, rows: Iterable[Mapping[str, Any]], windows: Iterable[int] = range(WINDOWS)
) -> Comparison:
    """Compare reported target health with the truth, for the given windows.

    A row is `window`, `target_url`, `health` and further columns of `target_health`. Rows that the truth does not tell
    of (a target before or after it matters) are not judged.
    """
    result = Comparison()
    reported = {(row["window"], row["target_url"]): row for row in rows}
    for window in windows:
        for url, target in scenario.targets.items():
            if (expected := target.truth.get(window)) is None:
                continue
            row = reported.get((window, url))
            pairs = [("health", expected.health, row and row["health"])]
            if row is not None:
                pairs += [(name, _plain(value), _plain(row.get(name))) for name, value in expected.properties.items()]
            for what, should, was in pairs:
                result.note("target health")
                if should != was:
                    result.differences.append(Difference(window, "", "", url, "target health", what, should, was))
    return result
