"""The script of the demo's web as values: who is on it, what each page says in each window, what is true about it.

Here: the loader of `scenario.toml` and the small language its truths are written in. Not here: HTML and bytes
(`orchestration.demo.web`), the comparison with what the flow reported (`truth`). Nothing here is computed from the
pages: a truth is what a person wrote beside the script, and the loader only checks that it is complete and well-formed.
"""

from __future__ import annotations

import shlex
import tomllib
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cached_property, lru_cache
from importlib.resources import files
from typing import Any
from urllib.parse import urlsplit

from transforms.errors import PermanentError
from transforms.reasons import Evidence, Health, Reason

WINDOWS = 7
"""Windows of the demo, 0 to 6."""
BASE = datetime(2026, 11, 2, 8, tzinfo=UTC)
"""Start of window 0 of the logical clock."""
STEP = timedelta(hours=2)
"""Logical time between two demo windows: longer than any confirmation delay, so that a miss of one window is confirmed
in the next."""

STATES = ("unknown", "live", "lost")
EVENTS = ("none", "new", "lost", "recovered")


class ScenarioError(PermanentError):
    """`scenario.toml` says something that makes no sense; the message names the page and the field."""


def window_start(window: int) -> datetime:
    """Start (UTC) of a demo window on the logical clock."""
    return BASE + STEP * window


def windows_of(spec: str) -> range:
    """`"3"` -> range(3, 4); `"2-4"` -> range(2, 5); `"5-"` -> range(5, WINDOWS)."""
    first, dash, last = spec.partition("-")
    start = int(first)
    stop = (int(last) if last else WINDOWS - 1 if dash else start) + 1
    if not 0 <= start < stop <= WINDOWS:
        raise ValueError(f"windows {spec!r} are not within 0-{WINDOWS - 1}")
    return range(start, stop)


def _scalar(text: str) -> Any:
    """The value behind `key=`: true, false, null, an integer, a list in brackets, or text."""
    words = {"true": True, "false": False, "null": None}
    if text in words:
        return words[text]
    if text.startswith("[") and text.endswith("]"):
        return [part for part in text[1:-1].split(",") if part]
    return int(text) if text.isdigit() else text


@dataclass(frozen=True)
class EdgeTruth:
    """What must be reported about one edge in one window."""

    evidence: str
    reasons: frozenset[str]
    state: str
    event: str = "none"
    changes: frozenset[str] = frozenset()
    properties: dict[str, Any] = field(default_factory=dict)
    """Columns of `link_observations` with the value they must have; what is not named is not judged."""


@dataclass(frozen=True)
class TargetTruth:
    """What must be reported about one target page in one window; columns of `target_health` by name."""

    health: str
    properties: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Edge:
    project: str
    source: str
    target: str
    truth: dict[int, EdgeTruth]
    discovered: bool = False
    """Not in the import file: the crawler finds it on a page that it visits anyway."""

    @property
    def key(self) -> tuple[str, str, str]:
        return (self.project, self.source, self.target)


@dataclass(frozen=True, eq=False)
class Page:
    """One scripted page: a base and what differs in some windows. `spec(k)` is what the server plays in window k."""

    url: str
    tells: str
    shows: tuple[str, ...]
    base: dict[str, Any]
    at: tuple[tuple[range, dict[str, Any]], ...] = ()
    edges: tuple[Edge, ...] = ()

    @cached_property
    def host(self) -> str:
        return urlsplit(self.url).hostname or ""

    @cached_property
    def path(self) -> str:
        parts = urlsplit(self.url)
        return (parts.path or "/") + (f"?{parts.query}" if parts.query else "")

    def spec(self, window: int) -> dict[str, Any]:
        merged = dict(self.base)
        for span, changes in self.at:
            if window in span:
                merged |= changes
        return merged


@dataclass(frozen=True, eq=False)
class Host:
    """Manners of one server: encoding, validators, robots.txt by window, whether it keeps connections alive."""

    name: str
    site: str
    encoding: str = "gzip"
    validators: str = "etag"
    """etag | modified | both | none | restless (a new ETag for every answer: it never matches)"""
    keep_alive: bool = True
    robots: tuple[tuple[range, dict[str, Any]], ...] = ()
    dns: range = range(WINDOWS)
    """Windows in which the name resolves."""

    def robots_at(self, window: int) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for span, answer in self.robots:
            if window in span:
                found = answer
        return found


@dataclass(frozen=True)
class TargetPage:
    page: Page
    truth: dict[int, TargetTruth]


@dataclass(frozen=True)
class TargetRule:
    scope: str
    value: str
    include_subdomains: bool = False


@dataclass(frozen=True)
class Project:
    key: str
    name: str
    targets: tuple[TargetRule, ...]
    export: str
    """Format of its import file: `ahrefs` (UTF-16, tabs) or `generic` (UTF-8, commas)."""
    junk: tuple[dict[str, str], ...] = ()
    """Rows of the import file that must not become edges: source, target, expect (`invalid` | `duplicate`), why."""


@dataclass(frozen=True)
class Scenario:
    projects: dict[str, Project]
    hosts: dict[str, Host]
    pages: dict[tuple[str, str], Page]
    targets: dict[str, TargetPage]
    totals: dict[str, Any]

    @cached_property
    def edges(self) -> tuple[Edge, ...]:
        return tuple(edge for page in self.pages.values() for edge in page.edges)

    def imported(self, project: str) -> tuple[Edge, ...]:
        return tuple(edge for edge in self.edges if edge.project == project and not edge.discovered)


def _truths(text: str, where: str) -> list[tuple[range, list[str]]]:
    rows = []
    for line in text.replace(";", "\n").splitlines():
        if not line.strip():
            continue
        try:
            windows, *tokens = shlex.split(line)
            rows.append((windows_of(windows), tokens))
        except ValueError as error:
            raise ScenarioError(
                f"{where}: truth line {line.strip()!r}: {error}; write e.g. '2-4 found live'."
            ) from error
    return rows


def _properties(tokens: list[str]) -> dict[str, Any]:
    return {key: _scalar(value) for key, _, value in (token.partition("=") for token in tokens)}


def parse_edge_truth(text: str, where: str = "truth") -> dict[int, EdgeTruth]:
    """Truth of an edge by window. Language, lines parted by `;` or a line break:

    `<windows> <evidence>[:<reason>[|<reason>]] <state> [NEW|LOST|RECOVERED] [~<change> ...] [<column>=<value> ...]`,
    e.g. `3 none:http_503|origin_backoff live`. `found` and `missing` without a reason mean link_found and link_absent.
    Raises `ScenarioError` on an unknown word or a window that is told twice.
    """
    truth: dict[int, EdgeTruth] = {}
    for span, tokens in _truths(text, where):
        if len(tokens) < 2:
            raise ScenarioError(f"{where}: a truth line needs evidence and state, got {tokens}.")
        word, _, given = tokens[0].partition(":")
        reasons = given or {"found": Reason.LINK_FOUND, "missing": Reason.LINK_ABSENT}.get(word, "")
        events = [token.lower() for token in tokens[2:] if token.isupper()]
        changes = [token[1:] for token in tokens[2:] if token.startswith("~")]
        rest = [token for token in tokens[2:] if "=" in token and not token.startswith("~")]
        parsed = EdgeTruth(
            evidence=Evidence(word).value,
            reasons=frozenset(Reason(reason).value for reason in reasons.split("|")),
            state=tokens[1],
            event=events[0] if events else "none",
            changes=frozenset(changes),
            properties=_properties(rest),
        )
        unread = len(tokens) - 2 - len(events) - len(changes) - len(rest)
        if unread or len(events) > 1 or parsed.state not in STATES or parsed.event not in EVENTS:
            raise ScenarioError(f"{where}: cannot read truth {' '.join(tokens)!r}.")
        for window in span:
            if window in truth:
                raise ScenarioError(f"{where}: window {window} is told twice.")
            truth[window] = parsed
    if sorted(truth) != list(range(min(truth, default=0), WINDOWS)):
        raise ScenarioError(f"{where}: windows {sorted(truth)} leave a gap.")
    return truth


def parse_target_truth(text: str, where: str = "truth") -> dict[int, TargetTruth]:
    """Truth of a target page by window: `<windows> <health> [<column of target_health>=<value> ...]`."""
    truth: dict[int, TargetTruth] = {}
    for span, (health, *rest) in _truths(text, where):
        for window in span:
            truth[window] = TargetTruth(Health(health).value, _properties(rest))
    return truth


def _spans(rows: list[dict[str, Any]]) -> tuple[tuple[range, dict[str, Any]], ...]:
    return tuple((windows_of(row["w"]), {key: value for key, value in row.items() if key != "w"}) for row in rows)


_PAGE_WORDS = frozenset({"url", "tells", "shows", "at", "edge", "truth"})


def _page(row: dict[str, Any]) -> Page:
    url = row["url"]
    edges = tuple(
        Edge(
            project=edge["project"],
            source=url,
            target=edge["target"],
            truth=parse_edge_truth(edge["truth"], f"{url} -> {edge['target']}"),
            discovered=edge.get("discovered", False),
        )
        for edge in row.get("edge", ())
    )
    base = {key: value for key, value in row.items() if key not in _PAGE_WORDS}
    return Page(url, row.get("tells", ""), tuple(row.get("shows", ())), base, _spans(row.get("at", [])), edges)


def parse_scenario(text: str) -> Scenario:
    """The scenario behind a TOML text. Raises `ScenarioError` when a page stands on a host that is not declared."""
    raw = tomllib.loads(text)
    hosts = {}
    for row in raw["host"]:
        dns = windows_of(row["dns"]) if "dns" in row else range(WINDOWS)
        fields = {key: value for key, value in row.items() if key not in {"robots", "dns"}}
        hosts[row["name"]] = Host(**fields, robots=_spans(row.get("robots", [])), dns=dns)
    projects = {
        row["key"]: Project(
            key=row["key"],
            name=row["name"],
            targets=tuple(TargetRule(**rule) for rule in row["target"]),
            export=row["export"],
            junk=tuple(row.get("junk", ())),
        )
        for row in raw["project"]
    }
    pages: dict[tuple[str, str], Page] = {}
    targets: dict[str, TargetPage] = {}
    for row in [*raw["page"], *raw["target"]]:
        page = _page(row)
        if page.host not in hosts:
            raise ScenarioError(f"page {page.url}: host {page.host!r} has no [[host]] entry; add one.")
        if (page.host, page.path) in pages:
            raise ScenarioError(f"page {page.url} is scripted twice; keep one.")
        pages[page.host, page.path] = page
        if "truth" in row:
            targets[page.url] = TargetPage(page, parse_target_truth(row["truth"], page.url))
    return Scenario(projects, hosts, pages, targets, raw["totals"])


@lru_cache(maxsize=1)
def load_scenario() -> Scenario:
    """The demo's scenario (`scenario.toml` beside this module)."""
    return parse_scenario(files("orchestration.demo.scenario").joinpath("scenario.toml").read_text(encoding="utf-8"))
