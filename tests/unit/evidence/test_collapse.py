"""A page that is suddenly next to empty: what is a collapse, and how many looks it takes until it is believed."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fixtures.matching import START, WindowBuilder
from transforms.collapse import BELIEVED_AFTER, BELIEVED_LOOKS, PRIOR_COLUMNS, is_held, remembered
from transforms.evidence import page_looks, source_evidence
from transforms.schemas import DUE_SOURCES

PAGE, TARGET = "https://source.example/", "https://shop.example/a"
HOUR = timedelta(hours=1)

Look = tuple[float, int, int]
"""Hours since the first, links, bytes of text."""


def reasons(looks: list[Look], *, held_link: frozenset[int] = frozenset()) -> list[str]:
    """What each look at a page says of a link that is there only in the looks numbered `held_link`: window by window, each with
    what the one before it left."""
    prior: dict[str, Any] = {}
    said = []
    for number, (hours, links, text) in enumerate(looks):
        window = WindowBuilder()
        window.edge(PAGE, TARGET)
        window.fetch(PAGE, fetched_at=START + hours * HOUR)
        window.page(PAGE, link_count=links, text_bytes=text)
        if number in held_link:
            window.link(PAGE, TARGET)
        if prior:
            window.prior(PAGE, prior["prior_link_count"], prior["prior_text_bytes"],
                         collapsed_looks=prior["collapsed_looks"], collapsed_since=prior["collapsed_since"])  # fmt: skip
        (row,) = window.match().observations.to_pylist()
        said.append(row["evidence_reason"])
        tables = window.tables()
        due = pl.DataFrame(pl.from_arrow(DUE_SOURCES.table(window.due))).select("source_url_id", *PRIOR_COLUMNS)
        left = page_looks(source_evidence(tables["fetches"], tables["pages"], due)).to_dicts()
        assert len(left) == 1
        prior = left[0]
    return said


LOOK = {
    "prior_link_count": pl.UInt32, "prior_text_bytes": pl.UInt32, "collapsed_looks": pl.UInt16,
    "collapsed_since": pl.Datetime("us", "UTC"), "page_link_count": pl.UInt32, "page_text_bytes": pl.UInt32,
    "observed_at": pl.Datetime("us", "UTC"),
}  # fmt: skip
WHOLE, BACK_SOON = (40, 6000), (0, 60)
HELD, ABSENT, FOUND = "link_collapse", "link_absent", "link_found"


def at(hours: float, page: tuple[int, int]) -> Look:
    return (hours, *page)


@pytest.mark.parametrize(
    ("looks", "said"),
    [
        # a collapse is held at the second and the third look too, not only at the first
        ([at(0, WHOLE), at(1, BACK_SOON), at(2, BACK_SOON), at(3, BACK_SOON), at(4, BACK_SOON)], [FOUND, *[HELD] * 4]),
        # three looks over a whole day: this is the page now, and the miss counts
        ([at(0, WHOLE), at(1, BACK_SOON), at(13, BACK_SOON), at(25, BACK_SOON), at(26, BACK_SOON)],
         [FOUND, HELD, HELD, ABSENT, ABSENT]),
        # a day, but two looks; the third is enough
        ([at(0, WHOLE), at(1, BACK_SOON), at(30, BACK_SOON), at(31, BACK_SOON)], [FOUND, HELD, HELD, ABSENT]),
        # one whole page between them begins the count anew
        ([at(0, WHOLE), at(1, BACK_SOON), at(13, BACK_SOON), at(14, WHOLE), at(26, BACK_SOON)],
         [FOUND, HELD, HELD, ABSENT, HELD]),
        # a smaller page is the measure after a day; what follows is compared with it
        ([at(0, WHOLE), at(1, (2, 900)), at(13, (2, 900)), at(25, (2, 900)), at(26, (0, 60))],
         [FOUND, HELD, HELD, ABSENT, HELD]),
        # the page shrinks step by step: each is an ordinary page
        ([at(0, WHOLE), at(1, (20, 3000)), at(2, (10, 1500)), at(3, (4, 700))], [FOUND, ABSENT, ABSENT, ABSENT]),
    ],
)  # fmt: skip
def test_looks_at_a_page(looks: list[Look], said: list[str]) -> None:
    assert reasons(looks, held_link=frozenset({0})) == said


def test_a_page_that_drops_our_link_and_stays_is_a_miss_at_once() -> None:
    assert reasons([(0, 1, 800), (1, 0, 790)], held_link=frozenset({0})) == [FOUND, ABSENT]
    assert reasons([(0, 40, 6000), (1, 39, 5990)], held_link=frozenset({0})) == [FOUND, ABSENT]


def test_a_link_that_stands_on_a_collapsed_page_is_found() -> None:
    assert reasons([at(0, WHOLE), at(1, (1, 60)), at(2, BACK_SOON)], held_link=frozenset({0, 1})) == [
        FOUND,
        FOUND,
        HELD,
    ]


@given(
    had=st.tuples(st.integers(1, 5000), st.integers(1, 100_000)),
    links=st.floats(0, 1 / 5),
    text=st.floats(0, 1 / 3),
    hours=st.lists(st.floats(0.5, 40), min_size=1, max_size=4),
)
def test_no_collapse_is_a_miss_before_its_time(
    had: tuple[int, int], links: float, text: float, hours: list[float]
) -> None:
    """However large the page was: what lost nearly all of its links and most of its text is no miss until it was seen so three
    times over a day."""
    left = (int(had[0] * links), int(had[1] * text))
    prior: dict[str, Any] = {
        "prior_link_count": had[0],
        "prior_text_bytes": had[1],
        "collapsed_looks": 0,
        "collapsed_since": None,
    }
    first = None
    for number in range(len(hours)):
        seen_at = START + sum(hours[: number + 1]) * HOUR
        first = first or seen_at
        look = pl.DataFrame(
            [{**prior, "page_link_count": left[0], "page_text_bytes": left[1], "observed_at": seen_at}], schema=LOOK
        )
        believed = number + 1 >= BELIEVED_LOOKS and seen_at - first >= BELIEVED_AFTER
        assert look.select(is_held()).item() == (not believed)
        (prior,) = look.select(remembered()).to_dicts()
        if believed:
            assert (prior["prior_link_count"], prior["prior_text_bytes"], prior["collapsed_looks"]) == (*left, 0)
            break
        assert (prior["prior_link_count"], prior["prior_text_bytes"], prior["collapsed_looks"]) == (*had, number + 1)


def test_retry_after_with_a_200_is_no_page() -> None:
    for seconds, said in (
        (600, ("none", "maintenance")),
        (0, ("missing", "link_absent")),
        (None, ("missing", "link_absent")),
    ):
        window = WindowBuilder()
        window.edge(PAGE, TARGET)
        window.fetch(PAGE, retry_after_s=seconds)
        window.page(PAGE)
        (row,) = window.match().observations.to_pylist()
        assert (row["evidence"], row["evidence_reason"]) == said
