"""The demo's import files, as the tools that link managers use would export them.

Here: the two formats, written from the scenario's imported edges plus the rows that an import must refuse. Not here:
how such files are read (`transforms.imports`).
"""

from __future__ import annotations

import csv
import io
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from orchestration.demo.scenario.model import Edge, Page, Project, Scenario, TargetRule, load_scenario

AHREFS_COLUMNS = (
    "Referring page title",
    "Referring page URL",
    "Language",
    "Platform",
    "Referring page HTTP code",
    "Domain rating",
    "UR",
    "Domain traffic",
    "Referring domains",
    "Linked domains",
    "External links",
    "Page traffic",
    "Keywords",
    "Target URL",
    "Left context",
    "Anchor",
    "Right context",
    "Redirect Chain URLs",
    "Redirect Chain status codes",
    "Type",
    "Is spam",
    "Content",
    "Nofollow",
    "UGC",
    "Sponsored",
    "Rendered",
    "Raw",
    "Lost status",
    "Drop reason",
    "Discovered status",
    "First seen",
    "Last seen",
    "Lost",
    "Author",
    "Page type",
    "Page category",
    "Links in group",
)
GENERIC_COLUMNS = ("source_url", "target_url", "anchor_text", "rel", "first_seen", "note")
JUNK_AFTER = 7
"""Refused rows stand after this many good ones, in the middle of the file as in life."""


@dataclass(frozen=True)
class ExportFile:
    """An import file and what an import of it must report."""

    project: Project
    path: Path
    rows: int
    accepted: int
    duplicate: int
    invalid: int

    @property
    def targets(self) -> tuple[TargetRule, ...]:
        return self.project.targets


def ahrefs_bytes(rows: list[dict[str, str]]) -> bytes:
    """Rows (by Ahrefs' headings; absent ones are empty) as Ahrefs exports them: UTF-16 LE with BOM, tabs, quotes."""
    text = io.StringIO()
    writer = csv.DictWriter(
        text, AHREFS_COLUMNS, restval="", delimiter="\t", quoting=csv.QUOTE_ALL, lineterminator="\r\n"
    )
    writer.writeheader()
    writer.writerows(rows)
    return b"\xff\xfe" + text.getvalue().encode("utf-16-le")


def _said(page: Page, target: str) -> dict[str, str]:
    """Anchor and rel that the export remembers: those of the page's base, if it names the target."""
    for link in page.base.get("links", ()):
        if link["href"] == target:
            return {
                "anchor": link.get("anchor", link.get("img", "")),
                "rel": link.get("rel", ""),
                "image": str("img" in link),
            }
    return {"anchor": "", "rel": "", "image": "False"}


def ahrefs_row(
    source: str,
    target: str,
    *,
    title: str = "",
    anchor: str = "",
    rel: str = "",
    image: bool = False,
    language: str = "en",
) -> dict[str, str]:
    rel = rel.lower()
    return {
        "Referring page title": title,
        "Referring page URL": source,
        "Language": language,
        "Platform": "",
        "Referring page HTTP code": "200",
        "Domain rating": "31",
        "UR": "12",
        "Domain traffic": "540",
        "Referring domains": "3",
        "Linked domains": "18",
        "External links": "24",
        "Page traffic": "0",
        "Keywords": "0",
        "Target URL": target,
        "Left context": "as we said before,",
        "Anchor": anchor,
        "Right context": ", and so on.",
        "Type": "image" if image else "text",
        "Is spam": "false",
        "Content": "true",
        "Nofollow": str("nofollow" in rel).lower(),
        "UGC": str("ugc" in rel).lower(),
        "Sponsored": str("sponsored" in rel).lower(),
        "Rendered": "true",
        "Raw": "true",
        "Discovered status": "",
        "First seen": "2025-03-11 09:12:44",
        "Last seen": "2026-10-29 21:40:03",
        "Links in group": "1",
    }


def generic_bytes(rows: list[dict[str, str]]) -> bytes:
    """Rows (source_url, target_url, …) as somebody's own list: UTF-8, commas."""
    text = io.StringIO()
    writer = csv.DictWriter(text, GENERIC_COLUMNS, restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue().encode()


def _pairs(scenario: Scenario, project: Project) -> list[tuple[str, str, Edge | None]]:
    good: list[tuple[str, str, Edge | None]] = [
        (edge.source, edge.target, edge) for edge in scenario.imported(project.key)
    ]
    junk: list[tuple[str, str, Edge | None]] = [(row["source"], row["target"], None) for row in project.junk]
    return [*good[:JUNK_AFTER], *junk, *good[JUNK_AFTER:]]


def export_bytes(scenario: Scenario, project: Project) -> bytes:
    """The import file of a project."""
    by_url = {page.url: page for page in scenario.pages.values()}
    rows = []
    for source, target, edge in _pairs(scenario, project):
        page = by_url[source] if edge else None
        said = _said(page, target) if page else {"anchor": "", "rel": "", "image": "False"}
        if project.export == "ahrefs":
            title = (page.base.get("title") or scenario.hosts[page.host].site) if page else ""
            rows.append(
                ahrefs_row(
                    source,
                    target,
                    title=title,
                    anchor=said["anchor"],
                    rel=said["rel"],
                    image=said["image"] == "True",
                    language=page.base.get("lang", "en") if page else "",
                )
            )
        else:
            rows.append(
                {
                    "source_url": source,
                    "target_url": target,
                    "anchor_text": said["anchor"],
                    "rel": said["rel"],
                    "first_seen": "2025-03-11",
                    "note": "" if edge else "please check",
                }
            )
    return ahrefs_bytes(rows) if project.export == "ahrefs" else generic_bytes(rows)


def write_exports(folder: Path, scenario: Scenario | None = None) -> dict[str, ExportFile]:
    """Write the import file of every project into `folder`; by project key. The same bytes every time."""
    scenario = scenario or load_scenario()
    folder.mkdir(parents=True, exist_ok=True)
    written = {}
    for key, project in scenario.projects.items():
        path = folder / {"ahrefs": f"{key}-ahrefs-backlinks.csv", "generic": f"{key}-backlinks.csv"}[project.export]
        path.write_bytes(export_bytes(scenario, project))
        expected = Counter(row["expect"] for row in project.junk)
        accepted = len(scenario.imported(key))
        written[key] = ExportFile(
            project,
            path,
            accepted + len(project.junk),
            accepted,
            expected["duplicate"],
            expected["invalid"],
        )
    return written
