"""Robots directives of pages. Expected values by Google's specification of the robots meta tag and X-Robots-Tag."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from transforms.html.robots import combine, header_directives, split_directives

SPLIT = [
    ("NoIndex, FOLLOW", ["noindex", "follow"]),
    ("noindex nofollow", ["noindex", "nofollow"]),
    ("none", ["none"]),
    ("max-snippet: 20, max-image-preview:large", ["max-snippet:20", "max-image-preview:large"]),
    (
        "unavailable_after: Wed, 25 Jun 2025 15:00:00 GMT, noindex",
        ["unavailable_after: wed, 25 jun 2025 15:00:00 gmt", "noindex"],
    ),
    ("unavailable_after: June 25, 2025, nofollow", ["unavailable_after: june 25, 2025", "nofollow"]),
    ("noarchive,unavailable_after:2025-06-25", ["noarchive", "unavailable_after: 2025-06-25"]),
    ("", []),
    (" , ,", []),
]


@pytest.mark.parametrize(("value", "expected"), SPLIT)
def test_directives_of_one_value(value: str, expected: list[str]) -> None:
    assert split_directives(value) == expected


HEADERS = [
    (["noindex"], ["noindex"]),
    (["googlebot: noindex"], []),
    (["BacklinksMonitor: noindex, nofollow"], ["noindex", "nofollow"]),
    (["googlebot: noindex, nofollow"], []),
    (["googlebot: noindex, backlinksmonitor: nofollow"], ["nofollow"]),
    (["noarchive", "backlinksmonitor: none", "otherbot: noindex"], ["noarchive", "none"]),
    (["unavailable_after: 25 Jun 2025 15:00:00 PST"], ["unavailable_after: 25 jun 2025 15:00:00 pst"]),
    (
        ["backlinksmonitor: unavailable_after: Wed, 25 Jun 2025 15:00:00 GMT, nofollow"],
        ["unavailable_after: wed, 25 jun 2025 15:00:00 gmt", "nofollow"],
    ),
    (["max-snippet: 0"], ["max-snippet:0"]),
    (["*: noindex"], ["noindex"]),
]


@pytest.mark.parametrize(("values", "expected"), HEADERS)
def test_headers_bind_by_agent(values: list[str], expected: list[str]) -> None:
    assert header_directives(values, "BacklinksMonitor") == expected


def test_the_strictest_of_all_binds() -> None:
    verdict = combine(["index", "follow", "max-snippet:50"], ["none", "max-snippet:-1", "all"])
    assert verdict.directives == ("max-snippet:50", "noindex", "nofollow")
    assert not verdict.indexable
    assert not verdict.meta_nofollow
    assert verdict.header_nofollow
    plain = combine(["index", "follow"], [])
    assert plain.directives == ("index", "follow")
    assert plain.indexable
    assert combine(["max-image-preview:large", "max-image-preview:none"], []).directives == ("max-image-preview:none",)


@pytest.mark.parametrize(
    ("text", "instant"),
    [
        ("wed, 25 jun 2025 15:00:00 gmt", datetime(2025, 6, 25, 15, tzinfo=UTC)),
        ("25 jun 2025 15:00:00 pst", datetime(2025, 6, 25, 23, tzinfo=UTC)),
        ("wednesday, 25-jun-25 15:00:00 gmt", datetime(2025, 6, 25, 15, tzinfo=UTC)),
        ("2025-06-25t15:00:00+02:00", datetime(2025, 6, 25, 13, tzinfo=UTC)),
        ("2025-06-25", datetime(2025, 6, 25, tzinfo=UTC)),
        ("june 25, 2025", datetime(2025, 6, 25, tzinfo=UTC)),
        ("some day", None),
    ],
)
def test_a_date_takes_effect_when_it_has_passed(text: str, instant: datetime | None) -> None:
    directives = [f"unavailable_after: {text}"]
    assert combine(directives, []).unavailable_after == instant
    assert combine(directives, []).indexable
    assert combine(directives, [], at=datetime(2025, 7, 1, tzinfo=UTC)).indexable is (instant is None)
    assert combine(directives, [], at=datetime(2025, 1, 1, tzinfo=UTC)).indexable
