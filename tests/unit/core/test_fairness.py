"""Who pays for a page that several tenants want."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from transforms.fairness import charge

NOW = datetime(2026, 12, 1, tzinfo=UTC)
A, B, C = (letter * 16 for letter in (b"a", b"b", b"c"))


def charged(wants: dict[int, list[bytes]], weights: dict[bytes, int] | None = None) -> dict[int, bytes]:
    """Page 0 is the most urgent, then page 1, and so on."""
    rows = [
        (page, tenant, -page, NOW + timedelta(seconds=page)) for page, tenants in wants.items() for tenant in tenants
    ]
    schema = {
        "source_url_id": pl.UInt64,
        "tenant_id": pl.Binary,
        "priority": pl.Int16,
        "due_at": pl.Datetime("us", "UTC"),
    }
    limits = pl.DataFrame(
        list((weights or {}).items()), schema={"tenant_id": pl.Binary, "weight": pl.UInt16}, orient="row"
    )
    result = charge(pl.DataFrame(rows, schema=schema, orient="row"), limits)
    assert result["source_url_id"].to_list() == sorted(wants)
    for tenant, weight in result.select("tenant_id", "tenant_weight").iter_rows():
        assert weight == max(1, (weights or {}).get(tenant, 1))
    return dict(result.select("source_url_id", "tenant_id").iter_rows())


def test_a_page_that_one_tenant_wants_is_charged_to_it() -> None:
    assert charged({0: [A], 1: [B, B], 2: [A]}, {B: 9}) == {0: A, 1: B, 2: A}
    assert charged({}) == {}


def test_shared_pages_go_to_whoever_has_paid_least_for_its_weight() -> None:
    # A has four pages of its own, B none: B pays until both have paid as much, then they take turns.
    own = {n: [A] for n in range(4)}
    shared = {n: [A, B] for n in range(4, 10)}
    payers = charged(own | shared)
    assert [payers[n] for n in shared] == [B, B, B, B, A, B]
    # Three times the weight, three times the pages; the first turns are at 1/3, 2/3, 1 (of A) and 1 (of B).
    payers = charged({n: [A, B] for n in range(8)}, {A: 3})
    assert [payers[n] for n in range(8)] == [A, A, A, B, A, A, A, B]


def test_those_with_the_least_choice_are_served_first() -> None:
    payers = charged({0: [A, B, C], 1: [A, B], 2: [A, B], 3: [A, B, C]})
    assert {payers[1], payers[2]} == {A, B}
    assert payers[0] == C
    assert Counter(payers.values()) == {A: 2, B: 1, C: 1}


@given(
    st.dictionaries(st.integers(0, 60), st.lists(st.sampled_from([A, B, C]), min_size=1, max_size=5), max_size=40),
    st.dictionaries(st.sampled_from([A, B, C]), st.integers(0, 5)),
)
def test_every_page_is_charged_once_to_somebody_who_wants_it_and_the_more_weight_the_more(
    wants: dict[int, list[bytes]], weights: dict[bytes, int]
) -> None:
    payers = charged(wants, weights)
    assert all(payers[page] in tenants for page, tenants in wants.items())
    paid = Counter(payers.values())
    both = {page for page, tenants in wants.items() if set(tenants) == {A, B}}
    for page in both:  # nobody would rather have seen the other pay: one turn more or less is all that can differ
        payer, other = payers[page], B if payers[page] == A else A
        mine, theirs = max(1, weights.get(payer, 1)), max(1, weights.get(other, 1))
        if {t for tenants in wants.values() for t in tenants} <= {A, B}:
            assert paid[payer] / mine <= (paid[other] + 1) / theirs + 1e-9
