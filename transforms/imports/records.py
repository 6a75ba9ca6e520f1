"""From lines to cells: CSV as it is found, not as it should be. Here: the assembler, which never loses a row.
Not here: where columns are (`transforms.imports.layout`), what a cell is worth (`transforms.imports.rows`).

Python's csv module does the splitting (C, lenient). What it would get wrong is decided here: a quote that never closes
makes *its own line* invalid and the next line is read afresh, instead of swallowing rows up to the next quote. A field
over several lines is believed only if it closes as RFC 4180 §2 wants, the record has as many cells as headings, and no
line inside it is a whole row by itself.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass, field
from typing import Any

from transforms.imports.layout import Layout
from transforms.imports.problems import RowReason

MAX_RECORD_LINES = 64
"""A quoted field over more lines than this was never closed."""
MAX_LINE_CHARS = 1 << 20
"""A longer line is no row: the reader keeps its head and skips the rest."""


@dataclass
class LineBlock:
    """Consecutive physical lines, without line ends."""

    first_line: int
    """Number of the first line in the file, from 1."""
    lines: list[str]
    too_long: frozenset[int] = frozenset()
    """Indices of lines of which only the head is here."""


@dataclass
class Cells:
    """The cells that matter, of consecutive rows; parallel lists."""

    line: list[int] = field(default_factory=list)
    """Line on which the row starts."""
    source: list[str] = field(default_factory=list)
    target: list[str] = field(default_factory=list)
    """Empty when the file has no target column."""
    reason: list[str | None] = field(default_factory=list)
    """Why the row is invalid already; `ragged_row` is provisional (see `rows`)."""
    blank_lines: int = 0
    """Lines that hold nothing: no rows."""

    def __len__(self) -> int:
        return len(self.line)

    def add(self, line: int, source: str, target: str, reason: str | None = None) -> None:
        self.line.append(line)
        self.source.append(source)
        self.target.append(target)
        self.reason.append(reason)


class RecordAssembler:
    """Turns blocks of lines into cells. Keeps at most `MAX_RECORD_LINES` lines of an open record between blocks."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._held: list[str] = []

    def feed(self, block: LineBlock, *, last: bool = False) -> Cells:
        """Rows that are complete with this block; with `last`, all that are left."""
        out = Cells()
        first = block.first_line - len(self._held)
        lines = self._held + block.lines
        too_long = {index + len(self._held) for index in block.too_long}
        self._held = []
        skip = max(0, self._layout.first_data_line - first)
        if skip:
            lines, first = lines[skip:], first + skip
            too_long = {index - skip for index in too_long if index >= skip}
        if self._layout.delimiter is None:
            self._plain(out, first, lines, too_long)
            return out
        start = 0
        for stop in [*sorted(too_long), len(lines)]:
            # A line that is too long is a wall: no record reaches across it.
            at_end = stop == len(lines) and stop not in too_long
            self._records(out, first + start, lines[start:stop], closed=last or not at_end)
            if stop in too_long:
                out.add(first + stop, lines[stop][:200], "", RowReason.LINE_TOO_LONG)
            start = stop + 1
        return out

    def _plain(self, out: Cells, first: int, lines: list[str], too_long: set[int]) -> None:
        for index, line in enumerate(lines):
            if index in too_long:
                out.add(first + index, line[:200], "", RowReason.LINE_TOO_LONG)
            elif cell := line.strip().strip('"'):
                out.add(first + index, cell, "")
            else:
                out.blank_lines += 1

    def _records(self, out: Cells, first: int, lines: list[str], *, closed: bool) -> None:
        start, total = 0, len(lines)
        while start < total:
            start = self._run(out, first, lines, start, closed)

    def _run(self, out: Cells, first: int, lines: list[str], start: int, closed: bool) -> int:
        """Read rows from `start` until one needs a decision; returns where to go on (the end when lines are held)."""
        layout, total = self._layout, len(lines)
        source, target, width = layout.source, layout.target, layout.width
        need = max(source, -1 if target is None else target)
        reader = csv.reader(lines[start:] if start else lines, delimiter=layout.delimiter or ",", skipinitialspace=True)
        at = start
        add_line, add_source, add_target, add_reason = (
            out.line.append,
            out.source.append,
            out.target.append,
            out.reason.append,
        )
        while True:
            try:
                row = next(reader, None)
            except csv.Error:  # a cell over csv's limit, 128 KiB
                one_line = reader.line_num == at - start + 1
                out.add(
                    first + at,
                    self._raw(lines[at]),
                    "",
                    RowReason.FIELD_TOO_LONG if one_line else RowReason.UNCLOSED_QUOTE,
                )
                return at + 1
            if row is None:
                return total
            end = start + reader.line_num
            if end - at > 1 or end == total:
                verdict = self._verdict(lines[at:end], row, at_block_end=end == total, closed=closed)
                if verdict == "hold":
                    self._held = lines[at:]
                    return total
                if verdict == "broken":
                    out.add(first + at, self._raw(lines[at]), "", RowReason.UNCLOSED_QUOTE)
                    return at + 1
            if layout.kind is not None and len(row) > layout.kind and self._is_no_link(row[layout.kind]):
                out.add(
                    first + at,
                    row[source] if len(row) > source else "",
                    row[target or 0] if len(row) > (target or 0) else "",
                    RowReason.NOT_A_LINK,
                )
            elif len(row) == width:
                add_line(first + at)
                add_source(row[source])
                add_target("" if target is None else row[target])
                add_reason(None)
            elif len(row) <= 1 and not "".join(row).strip():
                out.blank_lines += end - at
            else:
                # Spare delimiters at the end are harmless, and so are cut-off empty cells that nobody needs.
                harmless = len(row) > need and not any(cell.strip() for cell in row[width:])
                out.add(
                    first + at,
                    row[source] if len(row) > source else self._raw(lines[at]),
                    row[target] if target is not None and len(row) > target else "",
                    None if harmless and len(row) >= width else RowReason.RAGGED_ROW,
                )
            at = end

    def _is_no_link(self, kind: str) -> bool:
        return kind.strip().casefold() in self._layout.not_links

    def _verdict(self, lines: list[str], row: list[str], *, at_block_end: bool, closed: bool) -> str:
        """`row` for a record that stands, `broken` for a quote that never closes, `hold` if the next block decides."""
        options: dict[str, Any] = {"delimiter": self._layout.delimiter or ",", "skipinitialspace": True}
        lenient = csv.reader([*lines, ""], **options)
        next(lenient)
        if lenient.line_num > len(lines):  # the quote is still open: the line after was taken too
            fits = len(lines) <= MAX_RECORD_LINES and not self._holds_a_row(lines[1:])
            return "hold" if at_block_end and not closed and fits else "broken"
        if len(lines) == 1:
            return "row"
        try:
            strict = list(csv.reader([line + "\n" for line in lines], strict=True, **options))
        except csv.Error:
            return "broken"
        whole = len(strict) == 1 and len(row) == self._layout.width and len(lines) <= MAX_RECORD_LINES
        return "row" if whole and not self._holds_a_row(lines[1:]) else "broken"

    def _holds_a_row(self, lines: list[str]) -> bool:
        """Whether one of these lines is a whole row by itself: then the quote before it was a stray one."""
        layout = self._layout
        for line in lines:
            try:
                rows = list(csv.reader([line], delimiter=layout.delimiter or ",", skipinitialspace=True, strict=True))
            except csv.Error:
                continue
            if (
                rows
                and len(rows[0]) == layout.width > 1
                and rows[0][layout.source].strip().lower().startswith(("http://", "https://"))
            ):
                return True
        return False

    def _raw(self, line: str) -> str:
        return line[:500]
