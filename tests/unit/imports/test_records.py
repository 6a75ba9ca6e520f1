
"""CSV as it is found. The promise: each physical line that is not blank belongs to exactly one row, whatever the quoting."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from transforms.imports.formats import Provider
from transforms.imports.layout import Layout
from transforms.imports.records import Cells, LineBlock, RecordAssembler

LAYOUT = Layout(Provider.GENERIC, "table", ",", 2, 0, 1, headings=("source", "target", "anchor"), width=3)
A, B, C = "https://a.example/1", "https://a.example/2", "https://a.example/3"
T = "https://example.com/"


def read(
    lines: list[str], *, layout: Layout = LAYOUT, sizes: tuple[int, ...] = (), too_long: frozenset[int] = frozenset()
) -> Cells:
    """Rows of a heading line and these lines, fed in blocks of the given sizes."""
    lines = ["source,target,anchor", *lines]
    assembler, out, at = RecordAssembler(layout), Cells(), 0
    for size in (*sizes, len(lines)):
        part = lines[at : at + size]
        marked = frozenset(i - 1 - at + 1 for i in too_long if at <= i < at + len(part))
        for cells in [assembler.feed(LineBlock(at + 1, part, marked))]:
            merge(out, cells)
        at += len(part)
    merge(out, assembler.feed(LineBlock(at + 1, []), last=True))
    return out


def merge(into: Cells, cells: Cells) -> None:
    into.line += cells.line
    into.source += cells.source
    into.target += cells.target
    into.reason += cells.reason
    into.blank_lines += cells.blank_lines


def test_plain_rows_and_blank_lines() -> None:
    cells = read([f"{A},{T},x", "", f'{B},{T},"a, b"', " , , "])
    assert (cells.line, cells.source, cells.reason, cells.blank_lines) == ([2, 4, 5], [A, B, ""], [None, None, None], 1)


def test_a_field_over_several_lines_is_one_row() -> None:
    lines = [f'{A},{T},"first', "second", 'third ""quoted"""', f"{B},{T},x"]
    for sizes in [(), (2,), (3,), (1, 1, 1, 1)]:
        cells = read(lines, sizes=sizes)
        assert (cells.line, cells.source, cells.reason) == ([2, 5], [A, B], [None, None]), sizes


def test_a_quote_that_never_closes_costs_its_own_row_only() -> None:
    cells = read([f'{A},{T},"open', f"{B},{T},x", f"{C},{T},y"])
    assert cells.line == [2, 3, 4]
    assert cells.reason == ["unclosed_quote", None, None]
    assert cells.source[1:] == [B, C]


def test_two_stray_quotes_do_not_swallow_the_rows_between_them() -> None:
    cells = read([f'{A},{T},"open', f"{B},{T},x", f'{C},{T},"shut",', f'"{A}?4",{T},"z"'])
    assert cells.line == [2, 3, 4, 5]
    assert cells.reason == ["unclosed_quote", None, None, None]


def test_an_open_quote_on_the_last_line() -> None:
    cells = read([f"{A},{T},x", f'{B},{T},"open'])
    assert (cells.line, cells.reason) == ([2, 3], [None, "unclosed_quote"])


def test_invalid_csv_of_majestic_keeps_its_urls() -> None:
    cells = read([f'{A},{T},"say "hi" there"', f'{B},{T},"x, "y", z"'])
    assert (cells.line, cells.source, cells.target) == ([2, 3], [A, B], [T, T])
    assert cells.reason == [None, "ragged_row"]  # provisional: both cells hold URLs


def test_ragged_rows() -> None:
    cells = read([f"{A},{T}", f"{A}", f"{B},{T},x,,", f"{C},{T},x,y"])
    assert cells.reason == ["ragged_row", "ragged_row", None, "ragged_row"]
    assert cells.source == [A, A, B, C]


def test_a_line_that_is_too_long_is_a_row_of_its_own_and_a_wall() -> None:
    cells = read([f'{A},{T},"open', "x" * 1000, f"{B},{T},y"], too_long=frozenset({2}))
    assert cells.line == [2, 3, 4]
    assert cells.reason == ["unclosed_quote", "line_too_long", None]
    assert cells.source[1] == "x" * 200


def test_a_giant_cell() -> None:
    cells = read([f'{A},{T},"{"x" * 140_000}"', f"{B},{T},y"])
    assert cells.reason == ["field_too_long", None]


def test_kind_of_reference() -> None:
    layout = Layout(Provider.SCREAMING_FROG, "frog", ",", 2, 1, 2, kind=0, not_links=frozenset({"image"}), width=3)
    cells = read([f"Hyperlink,{A},{T}", f"Image,{B},{T}"], layout=layout)
    assert cells.reason == [None, "not_a_link"]


def test_plain_list_takes_the_line_as_it_is() -> None:
    layout = Layout(Provider.URL_LIST, "list", None, 2, 0, None)
    cells = read([f"{A}?x=1,2", f'"{B}"', "", '"open'], layout=layout)
    assert (cells.line, cells.source) == ([2, 3, 5], [f"{A}?x=1,2", B, "open"])


LINES = st.lists(
    st.one_of(
        st.sampled_from([f"{A},{T},x", f'{B},{T},"y"', f'{C},{T},"open', 'close",z', "", '"', '""', '"""', f'"{A}",{T},"a ""b"" c"']),
        st.text(st.sampled_from('ab",; \x00'), max_size=12),
    ),
    max_size=90,
)  # fmt: skip


@settings(max_examples=300, deadline=None)
@given(LINES, st.lists(st.integers(1, 12), max_size=12))
def test_no_line_is_lost_and_blocks_do_not_matter(lines: list[str], sizes: list[int]) -> None:
    whole, parts = read(lines), read(lines, sizes=tuple(sizes))
    assert (parts.line, parts.source, parts.reason) == (whole.line, whole.source, whole.reason)
    assert whole.line == sorted(set(whole.line))
    # A line that looks like a whole row is a row of its own, never the inside of another.
    for number, line in enumerate(lines, 2):
        if line in (f"{A},{T},x", f'{B},{T},"y"'):
            assert number in whole.line
