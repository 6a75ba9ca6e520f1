"""What a row is worth: the promise `edges + rejected = rows`, and each cell's reason."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from transforms.imports.channels import BadChannel, parse_channel
from transforms.imports.records import Cells
from transforms.imports.rows import Plan, RowJudge, clean, shown
from transforms.targets import parse_target

T = "https://example.com/page"


@pytest.mark.parametrize(
    ("raw", "url", "reason"),
    [
        ("https://a.example/", "https://a.example/", None),
        ("  https://a.example/ \t", "https://a.example/", None),
        ("\ufeffhttps://a.example/", "https://a.example/", None),
        ("HTTP:a.example", "HTTP:a.example", None),  # WHATWG repairs the slashes
        ("a.example", "https://a.example", None),
        ("a.example:8080/x?y", "https://a.example:8080/x?y", None),
        ("bücher.example/ü", "https://bücher.example/ü", None),
        ("//a.example/x", "https://a.example/x", None),
        ("mailto:a@b.example", "mailto:a@b.example", None),  # identity refuses it by name
        ("", None, "missing"),
        ("\xa0 ", None, "missing"),
        ("anchor text", None, "not_a_url"),
        ("https://a.example/two words", "https://a.example/two words", None),
        ("https://a.example/ https://b.example/", None, "not_a_url"),
        ("1.5", None, "not_a_url"),
        ("2026-11-01 10:00:00", None, "not_a_url"),
        ("/relative/page", None, "not_a_url"),
        ("localhost:80", None, "not_a_url"),
        ("https://a.example/\x07", None, "control_character"),
        ("https://a.example/\x85", None, "control_character"),
        ("https://a.example/\udce4", None, "bad_encoding"),
        ("https://a.example/\ufffd", None, "bad_encoding"),  # noqa: PT014 - a lone surrogate is not U+FFFD
        ("https://a.example/" + "x" * 20_000, None, "too_long"),
    ],
)
def test_cells(raw: str, url: str | None, reason: str | None) -> None:
    assert clean(raw) == (url, reason)


def test_what_is_shown_holds_no_password_and_nothing_that_moves_a_cursor() -> None:
    assert shown("https://me:hunter2@a.example/") == "https://me:…@a.example/"
    assert shown("a\x1b[2J\udcff\nb") == "a�[2J��b"
    assert len(shown("x" * 5000)) == 500


CELL = st.one_of(
    st.sampled_from(
        [
            "https://a.example/1",
            "https://A.example/1#x",
            "a.example/1",
            "https://b.example/",
            "",
            "x y",
            "ftp://a.example/",
            T,
        ]
    ),
    st.text(max_size=30),
    st.text(st.characters(categories=["Cs", "Cc", "Ll"]), max_size=6).map(lambda tail: "https://c.example/" + tail),
)


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.tuples(CELL, CELL, st.sampled_from([None, None, None, "ragged_row", "unclosed_quote"])), max_size=60),
    st.lists(st.integers(1, 20), max_size=6),
    st.sampled_from(["open", "given", "no column"]),
)
def test_every_row_is_an_edge_or_rejected_and_batches_do_not_matter(
    table: list[tuple[str, str, str | None]], sizes: list[int], scope: str
) -> None:
    def judge(sizes: list[int]) -> tuple[list[int], list[tuple[int, str, str]]]:
        targets = () if scope == "open" else (parse_target("example.com"),)
        judge = RowJudge(Plan(targets, scope == "open", scope != "no column", 3))
        at, edges, rejected = 0, list[int](), list[tuple[int, str, str]]()
        for size in [*sizes, len(table)]:
            cells = Cells()
            for number, (source, target, reason) in enumerate(table[at : at + size], at + 2):
                cells.add(number, source, target, reason)
            at += size
            judged = judge.judge(cells)
            assert judged.rows == len(cells)
            edges += judged.edges["line"].to_list()
            rejected += judged.rejected.select("line", "result", "reason").rows()
        return edges, rejected

    edges, rejected = judge([])
    assert sorted([*edges, *(line for line, _, _ in rejected)]) == list(range(2, len(table) + 2))
    assert all(result in ("duplicate", "invalid") and reason for _, result, reason in rejected)
    assert judge(sizes) == (edges, rejected)


@pytest.mark.parametrize(
    ("written", "channel", "destination"),
    [
        ("email:ops@example.com", "email", "ops@example.com"),
        ("webhook:https://Hooks.example/x", "webhook", "https://hooks.example/x"),
        ("webhook:env:HOOK_URL", "webhook", "env:HOOK_URL"),
        ("slack:env:SLACK_HOOK", "slack", "env:SLACK_HOOK"),
    ],
)
def test_channels(written: str, channel: str, destination: str) -> None:
    assert parse_channel(written) == {"channel": channel, "destination": destination}


@pytest.mark.parametrize(
    "written",
    [
        "",
        "email:",
        "email:nobody",
        "webhook:ftp://x/",
        "webhook:https://u:p@x.example/",
        "slack:https://hooks.slack.com/T/B/x",
        "sms:1",
    ],
)
def test_bad_channels_are_one_sentence_without_the_secret(written: str) -> None:
    with pytest.raises(BadChannel) as caught:
        parse_channel(written)
    assert "hooks.slack.com" not in str(caught.value)
