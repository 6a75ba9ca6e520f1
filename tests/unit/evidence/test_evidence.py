"""What a check proves: every reason code has its row here, with and without a matching link on the page."""

from __future__ import annotations

import hashlib
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fixtures.matching import FETCHED, START, WindowBuilder
from transforms.evidence import HEALTH_OF
from transforms.matching.observations import evidence_hash
from transforms.reasons import Health, Reason
from transforms.schemas import LINK_OBSERVATIONS

PAGE, TARGET = "https://source.example/", "https://shop.example/a"

GONE = {"http_404": "error", "http_410": "error"}
READABLE = {"ok", "not_modified", "body_truncated", "parse_truncated"}
PAGE_LEVEL = {"parse_timeout", "parse_failed", "script_shell", "challenge", "consent_wall", "parse_truncated"}
BLOCKED = {
    "blocked_network", "suppressed", "robots_denied", "robots_unreachable", "http_401", "http_403",
    "http_429", "challenge", "consent_wall", "login_redirect",
}  # fmt: skip
UNKNOWN = {"artifact_unavailable", "origin_backoff", "window_budget", "stopped", "not_fetched"}
ANSWERED = {
    "ok", "not_modified", "body_truncated", "parse_truncated", "parse_timeout", "parse_failed", "script_shell",
    "link_collapse", "unsupported_type", "link_found", "link_found_via_redirect", "link_absent",
}  # fmt: skip
DECIDED = {"link_found", "link_found_via_redirect", "link_absent", "link_collapse"}
"""Reasons that matching itself gives; they never come from a fetch."""


def check(*, link: bool, fetch: dict[str, Any] | None, page: dict[str, Any] | None, prior: int | None = None) -> dict:
    window = WindowBuilder()
    window.edge(PAGE, TARGET)
    if fetch is not None:
        window.fetch(PAGE, **fetch)
    if page is not None:
        window.page(PAGE, **page)
    if link:
        window.link(PAGE, TARGET)
    if prior is not None:
        window.prior(PAGE, prior)
    (row,) = window.match().observations.to_pylist()
    return row


def verdict(row: dict) -> tuple[str, str, bool]:
    return row["evidence"], row["evidence_reason"], row["evidence_complete"]


@pytest.mark.parametrize("reason", [r for r in Reason if r.value not in DECIDED], ids=str)
def test_every_reason_of_a_fetch(reason: Reason) -> None:
    """A fetch outcome with this reason, a parsed page with the link, and the same without the link."""
    code = reason.value
    fetch = {"reason": code, "content_hash": b"\1" * 32 if code in READABLE else None}
    with_link = check(link=True, fetch=fetch, page={})
    without = check(link=False, fetch=fetch, page={})
    if code in GONE:
        assert verdict(with_link) == verdict(without) == ("missing", code, True)
    elif code in ("ok", "not_modified"):
        assert verdict(with_link) == ("found", "link_found", True)
        assert verdict(without) == ("missing", "link_absent", True)
    elif code in READABLE:
        assert verdict(with_link) == ("found", "link_found", False)
        assert verdict(without) == ("none", code, False)
    else:
        assert verdict(with_link) == verdict(without) == ("none", code, False)
    assert without["source_fetch_health"] == (
        "blocked" if code in BLOCKED else "unknown" if code in UNKNOWN else "ok" if code in ANSWERED else "error"
    )


@pytest.mark.parametrize("reason", [r for r in Reason if r.value not in DECIDED | {"ok"}], ids=str)
def test_every_reason_of_a_page(reason: Reason) -> None:
    """A good fetch whose parse ended with this reason: a link that is there is there, an absent one is never lost."""
    fetch = {"reason": "ok"}
    assert check(link=True, fetch=fetch, page={"reason": reason.value})["evidence"] == "found"
    row = check(link=False, fetch=fetch, page={"reason": reason.value})
    if reason in (Reason.HTTP_404, Reason.HTTP_410):
        return  # not a page's reason
    assert verdict(row) == ("none", reason.value, False)


@pytest.mark.parametrize("reason", Reason, ids=str)
def test_health_of_every_reason(reason: Reason) -> None:
    code = reason.value
    expected = "blocked" if code in BLOCKED else "unknown" if code in UNKNOWN else "ok" if code in ANSWERED else "error"
    assert HEALTH_OF[reason] == Health(expected)


@pytest.mark.parametrize(
    ("page", "prior", "with_link", "without"),
    [
        ({}, None, ("found", "link_found", True), ("missing", "link_absent", True)),
        ({"is_truncated": True}, None, ("found", "link_found", False), ("none", "parse_truncated", False)),
        ({"is_script_shell": True}, None, ("found", "link_found", False), ("none", "script_shell", False)),
        ({"challenge": "cf-chl"}, None, ("found", "link_found", False), ("none", "challenge", False)),
        # the page's own reason is more exact than the marker
        ({"challenge": "c", "reason": "consent_wall"}, None,
         ("found", "link_found", False), ("none", "consent_wall", False)),
        # collapse: at least 10 links before, less than a fifth of them now
        ({"link_count": 4}, 25, ("found", "link_found", False), ("none", "link_collapse", False)),
        ({"link_count": 5}, 25, ("found", "link_found", True), ("missing", "link_absent", True)),
        ({"link_count": 1}, 10, ("found", "link_found", False), ("none", "link_collapse", False)),
        ({"link_count": 0}, 9, ("found", "link_found", True), ("missing", "link_absent", True)),
        ({"link_count": 0}, None, ("found", "link_found", True), ("missing", "link_absent", True)),
        # several oddities at once: the first of the table
        ({"link_count": 0, "is_truncated": True}, 99, ("found", "link_found", False),
         ("none", "parse_truncated", False)),
        ({"link_count": 0, "is_script_shell": True}, 99, ("found", "link_found", False),
         ("none", "script_shell", False)),
    ],
)  # fmt: skip
def test_oddities_of_a_page(page: dict, prior: int | None, with_link: tuple, without: tuple) -> None:
    assert verdict(check(link=True, fetch=None, page=page, prior=prior)) == with_link
    assert verdict(check(link=False, fetch=None, page=page, prior=prior)) == without


def test_decided_reasons_have_their_rows() -> None:
    assert verdict(check(link=True, fetch=None, page={}))[1] == "link_found"
    assert verdict(check(link=False, fetch=None, page={}))[1] == "link_absent"
    assert verdict(check(link=False, fetch=None, page={"link_count": 0}, prior=50))[1] == "link_collapse"
    window = WindowBuilder()
    window.edge(PAGE, TARGET)
    window.page(PAGE).link(PAGE, "https://source.example/out")
    window.redirects.append(
        {"source_url_id": 1, "link_identity": "https://source.example/out", "final_identity": TARGET}
    )
    (row,) = window.match().observations.to_pylist()
    assert verdict(row) == ("found", "link_found_via_redirect", True)


def test_an_edge_whose_source_has_no_outcome_still_has_a_row() -> None:
    row = check(link=False, fetch=None, page=None)
    assert verdict(row) == ("none", "not_fetched", False)
    assert (row["observed_at"], row["source_fetch_health"], row["source_http_status"]) == (START, "unknown", None)


def test_a_body_without_a_manifest_is_no_evidence() -> None:
    row = check(link=False, fetch={"reason": "ok"}, page=None)
    assert verdict(row) == ("none", "artifact_unavailable", False)
    assert row["content_hash"] is not None


def test_an_answer_stands_before_a_later_deferral() -> None:
    window = WindowBuilder()
    window.edge(PAGE, TARGET)
    window.page(PAGE).link(PAGE, TARGET)
    window.fetch(PAGE, reason="stopped", outcome="deferred", attempt=2)
    (row,) = window.match().observations.to_pylist()
    assert verdict(row) == ("found", "link_found", True)
    assert row["observed_at"] == FETCHED


def test_canonical_from_the_header_comes_first() -> None:
    row = check(
        link=False,
        fetch=None,
        page={"canonical_header": ["https://h.example/"], "canonical_html": ["https://b.example/"]},
    )
    assert row["source_canonical_url"] == "https://h.example/"


def test_the_hash_can_be_worked_out_by_hand() -> None:
    """The text of the module's docstring, built here without polars."""
    row = check(link=True, fetch=None, page={"title": None})

    def text(name: str) -> str:
        field, value = LINK_OBSERVATIONS.schema.field(name), row[name]
        if value is None:
            return "-"
        if isinstance(value, str):
            return f"{len(value.encode())}:{value}"
        if isinstance(value, bytes):
            return value.hex()
        if isinstance(value, list):
            return "[" + " ".join(item.hex() if isinstance(item, bytes) else item for item in value) + "]"
        if str(field.type).startswith("timestamp"):
            return str(int(value.timestamp() * 1_000_000))
        return str(value)

    columns = LINK_OBSERVATIONS.columns
    names = ["observation_id", *columns[columns.index("observed_at") : columns.index("target_rule_ids") + 1]]
    flags = [name for name in names if str(LINK_OBSERVATIONS.schema.field(name).type) == "bool"]
    assert flags == [
        "evidence_complete", "source_is_redirected", "source_robots_indexable", "target_is_redirected",
        "target_robots_indexable", "rel_nofollow", "rel_ugc", "rel_sponsored", "is_image_link", "is_redirected",
    ]  # fmt: skip
    digits = {False: 0, True: 1, None: 2}
    bits = sum(digits[row[name]] * 4**place for place, name in enumerate(flags))
    assert bits == 1 + 4**2 + 2 * 4**4, "complete, source indexable, nothing known of the target's robots"
    texts = [text(name) for name in names if name not in flags]
    assert row["evidence_hash"] == hashlib.sha256(",".join([*texts, str(bits)]).encode()).digest()


def test_the_hash_changes_with_each_evidence_column_and_not_with_the_version() -> None:
    window = WindowBuilder()
    window.edge(PAGE, TARGET)
    window.page(PAGE).link(PAGE, TARGET)
    base = pl.from_arrow(window.match().observations)
    assert isinstance(base, pl.DataFrame)
    before = evidence_hash(base)[0]
    assert evidence_hash(base.with_columns(ingest_version=pl.lit(7, pl.UInt64)))[0] == before
    changed = {
        "anchor_text": pl.lit("other"), "anchor_text_null": pl.lit(None, pl.String), "link_count": pl.lit(2, pl.UInt16),
        "rel_nofollow": pl.lit(value=True), "target_http_status": pl.lit(404, pl.UInt16),
        "follow": pl.lit("nofollow_meta"),
        "tolerated": pl.lit(["scheme"]), "content_hash": pl.lit(b"\2" * 32), "evidence_reason": pl.lit("script_shell"),
    }  # fmt: skip
    hashes = {
        evidence_hash(base.with_columns(value.alias(name.removesuffix("_null"))))[0] for name, value in changed.items()
    }
    assert before not in hashes
    assert len(hashes) == len(changed)


@given(order=st.permutations(range(6)), anchors=st.lists(st.text(max_size=8), min_size=6, max_size=6))
def test_the_hash_does_not_depend_on_the_order_of_rows(order: list[int], anchors: list[str]) -> None:
    rows = HASHED.with_columns(anchor_text=pl.Series(anchors, dtype=pl.String))
    straight, shuffled = evidence_hash(rows), evidence_hash(rows[order])
    assert [shuffled[order.index(n)] for n in range(6)] == straight.to_list()
    assert len(set(straight)) == 6, "the edges differ in their ids"


def _six() -> pl.DataFrame:
    window = WindowBuilder()
    window.page(PAGE)
    for number in range(6):
        window.edge(PAGE, f"{TARGET}/{number}")
    frame = pl.from_arrow(window.match().observations)
    assert isinstance(frame, pl.DataFrame)
    return frame


HASHED = _six()
