"""How a file of links is laid out: delimiter, heading line, export and columns, found from its first lines.

Here: the search over delimiters and heading lines, and the fall-back by content (a column of URLs). Not here: the
tables of headings (`transforms.imports.formats`), reading rows (`transforms.imports.records`).
"""

from __future__ import annotations

import csv
import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from transforms.imports.formats import (
    FORMATS,
    SOURCE_HEADINGS,
    TARGET_HEADINGS,
    Format,
    Provider,
    find,
    match,
    normalise,
)
from transforms.imports.problems import ImportFileError

HEADING_LINES = 30
"""Preambles (old Moz: six lines) are looked through this far."""
SAMPLE_LINES = 60
DELIMITERS = ("\t", ",", ";", "|")
_URL = re.compile(r"\s*https?://\S", re.IGNORECASE)
_BARE_URL = re.compile(r"\s*(?:[a-z0-9_-]+\.)+[a-z][a-z0-9-]+(?::\d+)?(?:[/?#]\S*)?\s*\Z", re.IGNORECASE)
_TARGET_NAMES = {name for form in FORMATS for name in form.target}
_DATE = re.compile(r"\s*\d{1,4}[-/.]\s?\d{1,2}[-/.]\s?\d{1,4}")
_EXCEL_SEP = re.compile(r"sep=(.)\s*\Z", re.IGNORECASE)


@dataclass(frozen=True)
class Layout:
    """Where things are. Column numbers count from 0."""

    provider: Provider
    label: str
    delimiter: str | None
    """None: a line is one cell."""
    first_data_line: int
    """Lines before it (preamble and headings) are no data; counts from 1."""
    source: int
    target: int | None
    kind: int | None = None
    not_links: frozenset[str] = frozenset()
    headings: tuple[str, ...] = ()
    """As the file spells them; empty when it has none."""
    width: int = 1
    """Cells that a row should have."""
    notes: tuple[str, ...] = field(default=())
    """What was decided by content, for a person to see."""

    @property
    def discovery_source(self) -> str:
        """The ledger's `discovery source` of edges from this file."""
        if self.provider is Provider.SEARCH_CONSOLE:
            return "search_console"
        return "manual" if self.provider in (Provider.GENERIC, Provider.URL_LIST) else "provider_import"


def split(line: str, delimiter: str | None) -> list[str]:
    """The cells of one line, quotes taken off; a line that CSV cannot read is split at the delimiter."""
    if delimiter is None:
        return [line.strip().strip('"')]
    try:
        return next(csv.reader([line], delimiter=delimiter, skipinitialspace=True), [])
    except csv.Error:
        return line.split(delimiter)


def detect(lines: list[str], name: str, *, format_name: str | None = None) -> Layout:
    """The layout of a file that begins with `lines` (complete lines, no line ends; some dozens are looked at).

    `format_name` insists on one export. Raises `ImportFileError` naming the headings found and what is needed.
    """
    lines = lines[:SAMPLE_LINES]
    if not any(line.strip() for line in lines):
        raise ImportFileError(f"{name} is empty: nothing to import.")
    if format_name == Provider.URL_LIST:
        return _plain_list(lines)
    wanted = _format_named(format_name)
    by_heading = _by_heading(lines, wanted)
    if by_heading is not None:
        return _with_columns(lines, name, *by_heading)
    if wanted is not None and wanted.provider not in (Provider.GENERIC, Provider.SEARCH_CONSOLE):
        raise ImportFileError(
            f"{name} does not have the headings of format {format_name} (a column “{wanted.source[0]}”): "
            f"its first line is {_shown(_first(lines))}; leave --format out to have the format detected."
        )
    return _by_content(lines, name)


def _format_named(format_name: str | None) -> Format | None:
    if format_name is None:
        return None
    for form in FORMATS:
        if form.provider == format_name:
            return form
    known = ", ".join(provider.value for provider in Provider)
    raise ImportFileError(
        f"--format {format_name} is not known: use one of {known}, or leave it out to have it detected."
    )


def _by_heading(lines: list[str], wanted: Format | None) -> tuple[Format, str | None, int, list[str]] | None:
    """The best (format, delimiter, index of heading line, headings): most needed columns, then most known headings."""
    best: tuple[tuple[int, int, int], Format, str | None, int, list[str]] | None = None
    for index, line in enumerate(lines[:HEADING_LINES]):
        if not line.strip():
            continue
        for delimiter in (*DELIMITERS, None):
            if delimiter is not None and delimiter not in line:
                continue
            cells = split(line, delimiter)
            if any(_URL.match(cell) for cell in cells):
                continue
            headings = [normalise(cell) for cell in cells]
            form = match(headings)
            if wanted is not None:
                form = wanted if find(headings, wanted.source) else None
            if form is None:
                continue
            known = len(set(headings) & (form.marks | set(form.source) | set(form.target)))
            if delimiter is None and known == len(headings) == 1 and len(cells[0]) > 40:
                continue
            score = (bool(find(headings, form.target)) + 1, known, -index)
            if best is None or score > best[0]:
                best = (score, form, delimiter, index, cells)
    return best[1:] if best else None


def _with_columns(
    lines: list[str], name: str, form: Format, delimiter: str | None, index: int, cells: list[str]
) -> Layout:
    headings = [normalise(cell) for cell in cells]
    sample = [split(line, delimiter) for line in lines[index + 1 :] if line.strip()]
    source = _only(find(headings, form.source), cells, sample, name)
    assert source is not None  # `_by_heading` found it
    target = _only([i for i in find(headings, form.target) if i != source], cells, sample, name)
    kind = next(iter(find(headings, form.kind)), None)
    provider, label = form.provider, form.label
    if provider is Provider.GENERIC and target is None and len(headings) == 1:
        provider, label = Provider.URL_LIST, "list of URLs with a heading"
    return Layout(
        provider,
        label,
        delimiter,
        index + 2,
        source,
        target,
        kind,
        form.not_links,
        tuple(cell.strip() for cell in cells),
        len(cells),
    )


def _only(columns: list[int], cells: list[str], sample: list[list[str]], name: str) -> int | None:
    """The one column of that heading; of duplicates the one that holds URLs, or the first if they say the same."""
    if len(columns) < 2:
        return columns[0] if columns else None
    with_urls = [c for c in columns if any(len(row) > c and _URL.match(row[c]) for row in sample)]
    if len(with_urls) <= 1:
        return with_urls[0] if with_urls else columns[0]
    if all(len({row[c].strip() for c in with_urls if len(row) > c}) <= 1 for row in sample):
        return with_urls[0]
    where = " and ".join(str(c + 1) for c in with_urls)
    raise ImportFileError(
        f"{name} has the heading {_shown(cells[columns[0]])} twice, with different URLs (columns {where}): rename one."
    )


def _by_content(lines: list[str], name: str) -> Layout:
    """No heading is known: one column of URLs is a list of source pages; two without headings are source, target."""
    start = 0
    if _EXCEL_SEP.match(lines[0].strip('"')):
        start = 1
    body = [(i, line) for i, line in enumerate(lines[start:], start) if line.strip()]
    best: tuple[int, str, int, list[list[str]], list[int]] | None = None
    for delimiter in DELIMITERS:
        rows = [split(line, delimiter) for _, line in body]
        widths = [len(row) for row in rows]
        width = max(set(widths), key=lambda w: (widths.count(w), w))
        if width < 2 or widths.count(width) < 0.6 * len(rows):
            continue
        columns = [c for c in range(width) if _mostly_urls([row[c] for row in rows if len(row) > c])]
        if columns and (best is None or widths.count(width) > best[0]):
            best = (widths.count(width), delimiter, width, rows, columns)
    if best is None:
        rows = [[line.strip().strip('"')] for _, line in body]
        cells = [row[0] for row in rows]
        urls = sum(bool(_URL.match(cell) or _BARE_URL.match(cell)) for cell in cells)
        first_is_url = bool(_URL.match(cells[0]) or _BARE_URL.match(cells[0]))
        if urls and urls >= 0.6 * (len(cells) - (not first_is_url)):
            return _plain_list(lines)
        raise _no_columns(name, body[0][1])
    delimiter, width, rows, columns = best[1:]
    headed = not any(len(rows[0]) > c and _URL.match(rows[0][c]) for c in columns)
    headings = tuple(cell.strip() for cell in rows[0]) if headed else ()
    first_data = body[0][0] + 1 + headed
    named_target = headed and any(normalise(headings[c]) in _TARGET_NAMES for c in columns if c < len(headings))
    if len(columns) == 1 and not named_target:
        others = [c for c in range(width) if c != columns[0]]
        dated = any(all(_DATE.match(row[c]) for row in rows[headed:] if len(row) > c) for c in others)
        search_console = headed and dated and width == 2
        provider = Provider.SEARCH_CONSOLE if search_console else Provider.URL_LIST
        label = (
            "Google Search Console latest links (localised headings)"
            if search_console
            else "table with one column of URLs"
        )
        note = f"headings not known: column {columns[0] + 1} holds URLs and is taken as the source page"
        return Layout(
            provider, label, delimiter, first_data, columns[0], None, headings=headings, width=width, notes=(note,)
        )
    if not headed and len(columns) == 2:
        note = (
            f"no headings: column {columns[0] + 1} is taken as the source page, column {columns[1] + 1} as the target"
        )
        return Layout(
            Provider.GENERIC,
            "table without headings",
            delimiter,
            first_data,
            columns[0],
            columns[1],
            width=width,
            notes=(note,),
        )
    raise _no_columns(name, body[0][1], delimiter)


def _plain_list(lines: list[str]) -> Layout:
    first = next((i for i, line in enumerate(lines) if line.strip()), 0)
    cell = lines[first].strip().strip('"') if lines else ""
    headed = bool(cell) and not (_URL.match(cell) or _BARE_URL.match(cell)) and " " not in cell and ":" not in cell
    return Layout(
        Provider.URL_LIST,
        "list of URLs",
        None,
        first + 1 + headed,
        0,
        None,
        headings=(cell,) if headed else (),
        width=1,
    )


def _mostly_urls(cells: list[str]) -> bool:
    """Whether the filled cells, the first (perhaps a heading) aside, are mostly URLs."""
    filled = [cell for cell in cells if cell.strip()]
    rest = filled[1:] if filled and not _URL.match(filled[0]) else filled
    return bool(rest) and sum(bool(_URL.match(cell)) for cell in rest) >= 0.6 * len(rest)


def _no_columns(name: str, first_line: str, delimiter: str | None = None) -> ImportFileError:
    if delimiter is None:
        delimiter = max(DELIMITERS, key=first_line.count) if any(d in first_line for d in DELIMITERS) else None
    headings = [cell.strip() for cell in split(first_line, delimiter)]
    return ImportFileError(
        f"{name} has no column that is known as the source page: its headings are {shown_headings(headings)}; "
        f"needed is {SOURCE_HEADINGS}, and {TARGET_HEADINGS} or --target."
    )


def shown_headings(headings: Sequence[str]) -> str:
    """Headings as an error message quotes them, a dozen at most."""
    return ", ".join(_shown(heading) for heading in headings[:12]) + (" …" if len(headings) > 12 else "")


def _first(lines: list[str]) -> str:
    return next(line for line in lines if line.strip())


def _shown(text: str) -> str:
    text = "".join(c if c.isprintable() else "�" for c in text.strip())
    return f"“{text[:60]}{'…' if len(text) > 60 else ''}”"
