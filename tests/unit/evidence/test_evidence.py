"""What a check proves: every reason code has its row here, with and without a matching link on the page."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fixtures.matching import FETCHED, START, WindowBuilder
from transforms.evidence import HEALTH_OF
from transforms.matching.observations import PARTS
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
    "link_collapse", "unsupported_type", "link_found", "link_found_via_redirect", "link_absent", "redirect_unchecked",
}  # fmt: skip
DECIDED = {"link_found", "link_found_via_redirect", "link_absent", "link_collapse", "redirect_unchecked"}
"""Reasons that matching itself gives; they never come from a fetch."""


def check(*, link: bool, fetch: dict[str, Any] | None, page: dict[str, Any] | None, prior: Any = None) -> dict:
    window = WindowBuilder()
    window.edge(PAGE, TARGET)
    if fetch is not None:
        window.fetch(PAGE, **fetch)
    if page is not None:
        window.page(PAGE, **page)
    if link:
        window.link(PAGE, TARGET)
    if prior is not None:
        window.prior(PAGE, *(prior if isinstance(prior, tuple) else (prior,)))
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
        # a page of any size: nearly all links and most of the text, or half of the links and nearly all text
        ({"link_count": 0, "text_bytes": 333}, (1, 1000),
         ("found", "link_found", False), ("none", "link_collapse", False)),
        ({"link_count": 0, "text_bytes": 334}, (1, 1000),
         ("found", "link_found", True), ("missing", "link_absent", True)),
        ({"link_count": 1, "text_bytes": 100}, (5, 900),
         ("found", "link_found", False), ("none", "link_collapse", False)),
        ({"link_count": 2, "text_bytes": 100}, (5, 900),
         ("found", "link_found", True), ("missing", "link_absent", True)),
        ({"link_count": 2, "text_bytes": 90}, (5, 900),
         ("found", "link_found", False), ("none", "link_collapse", False)),
        # our link is gone and the page is there: a miss at once
        ({"link_count": 0, "text_bytes": 980}, (1, 1000),
         ("found", "link_found", True), ("missing", "link_absent", True)),
        ({"link_count": 24, "text_bytes": 5000}, (25, 5040),
         ("found", "link_found", True), ("missing", "link_absent", True)),
        # several oddities at once: the first of the table
        ({"link_count": 0, "is_truncated": True}, 99, ("found", "link_found", False),
         ("none", "parse_truncated", False)),
        ({"link_count": 0, "is_script_shell": True}, 99, ("found", "link_found", False),
         ("none", "script_shell", False)),
    ],
)  # fmt: skip
def test_oddities_of_a_page(page: dict, prior: Any, with_link: tuple, without: tuple) -> None:
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
    """The tree of `transforms.matching.digests`, built here without polars."""
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

    def digest(part: str) -> bytes:
        flags = [name for name in PARTS[part] if str(LINK_OBSERVATIONS.schema.field(name).type) == "bool"]
        texts = [part, *(text(name) for name in PARTS[part] if name not in flags)]
        if flags:
            digits = {False: 0, True: 1, None: 2}
            texts.append(str(sum(digits[row[name]] * 4**place for place, name in enumerate(flags))))
        return hashlib.sha256(",".join(texts).encode()).digest()

    assert digest("rules") == hashlib.sha256(b"rules,[]").digest()
    assert digest("target") == hashlib.sha256(b"target,7:unknown,-,-,8").digest(), "not redirected, robots not known"
    tree = row["observation_id"].to_bytes(8, "big") + b"".join(map(digest, ["source", "answer", "target", "rules"]))
    assert row["evidence_hash"] == hashlib.sha256(tree).digest()


def test_every_column_of_an_observation_is_evidence_or_identity_or_bookkeeping() -> None:
    evidence = {name for columns in PARTS.values() for name in columns}
    assert sum(map(len, PARTS.values())) == len(evidence), "no column counts twice"
    identity = {
        "observation_id", "idempotency_key", "tenant_id", "project_id", "backlink_id", "window_start", "source_url_id",
        "source_url", "source_url_hash", "source_registrable_domain", "target_url_id", "target_url", "target_url_hash",
    }  # fmt: skip
    bookkeeping = {"crawl_run_id", "crawl_page_id", "fetch_job_id", "evidence_hash", "ingest_version"}
    assert set(LINK_OBSERVATIONS.columns) == evidence | identity | bookkeeping
    assert not evidence & (identity | bookkeeping)


def corrected(**changes: Any) -> bytes:
    """The hash of one edge's evidence after something about its page, link, target or rules was corrected."""
    window = WindowBuilder()
    window.edge(PAGE, TARGET)
    window.page(PAGE, **changes.get("page", {}))
    window.link(PAGE, changes.get("href", TARGET), **changes.get("link", {}))
    for _ in range(changes.get("more", 0)):
        window.link(PAGE, TARGET)
    if "health" in changes:
        window.target_check(TARGET, **changes["health"])
    if "rule" in changes:
        window.rule("domain", "shop.example")
    (row,) = window.match().observations.to_pylist()
    return row["evidence_hash"]


def test_the_hash_changes_with_each_thing_that_is_evidence() -> None:
    changes: list[dict[str, Any]] = [
        {}, {"link": {"anchor_text": "other"}}, {"link": {"anchor_text": ""}}, {"more": 1},
        {"link": {"rel_nofollow": True}}, {"link": {"rel_ugc": True}}, {"link": {"rel_sponsored": True}},
        {"link": {"follow": "nofollow_meta"}}, {"link": {"placement": "footer"}}, {"link": {"is_image": True}},
        {"href": TARGET.replace("https", "http")}, {"href": "https://elsewhere.example/"},
        {"page": {"title": "Another"}}, {"page": {"title": None}}, {"page": {"language": "de"}},
        {"page": {"canonical_html": ["https://c.example/"]}}, {"page": {"robots_indexable": False}},
        {"page": {"parser_version": "p2"}}, {"page": {"is_truncated": True}},
        {"health": {}}, {"health": {"http_status": 404}}, {"health": {"health": "error"}},
        {"health": {"robots_indexable": None}}, {"health": {"is_redirected": True}}, {"health": {"final_url": None}},
        {"rule": True},
    ]  # fmt: skip
    hashes = [corrected(**change) for change in changes]
    assert len(set(hashes)) == len(changes), "each is different from each other"
    assert hashes == [corrected(**change) for change in changes], "and the same when nothing was corrected"


def test_the_hash_does_not_change_with_bookkeeping() -> None:
    def of(**edge: Any) -> bytes:
        window = WindowBuilder()
        window.edge(PAGE, TARGET, **edge)
        window.page(PAGE).link(PAGE, TARGET)
        return window.match().observations["evidence_hash"][0].as_py()

    assert of() == of(crawl_page_id=7) == of(was_live=False)
    assert of() != of(crawl_run_id=b"r" * 16), "another run's observation of the same"


@given(order=st.permutations(range(6)), anchors=st.lists(st.text(max_size=8), min_size=6, max_size=6))
@settings(max_examples=20, deadline=None)
def test_the_hash_does_not_depend_on_the_order_of_rows(order: list[int], anchors: list[str]) -> None:
    def hashes(numbers: Sequence[int]) -> dict[int, bytes]:
        window = WindowBuilder(sources={PAGE: 1}, targets={f"{TARGET}/{n}": 1001 + n for n in range(6)})
        window.page(PAGE)
        for n in numbers:
            window.edge(PAGE, f"{TARGET}/{n}", backlink_id=n)
        for n in range(6):
            window.link(PAGE, f"{TARGET}/{n}", anchors[n])
        rows = window.match().observations
        return dict(zip(rows["backlink_id"].to_pylist(), rows["evidence_hash"].to_pylist(), strict=True))

    straight = hashes(range(6))
    assert hashes(order) == straight
    assert len(set(straight.values())) == 6, "the edges differ in their ids"
