"""Shares of a claim between tenants: the arithmetic."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from warehouse.ledger.claims import fair_share

NOW = datetime(2026, 12, 1, tzinfo=UTC)


def candidates(demand: dict[bytes, int]) -> pl.DataFrame:
    rows = [(number, tenant) for tenant, count in demand.items() for number in range(count)]
    return pl.DataFrame(
        {
            "source_url_id": [number for number, _ in rows],
            "tenant_id": [tenant for _, tenant in rows],
            "priority": [0] * len(rows),
            "due_at": [NOW + timedelta(seconds=number) for number, _ in rows],
            "confirmation": [False] * len(rows),
        },
        schema={
            "source_url_id": pl.UInt64,
            "tenant_id": pl.Binary,
            "priority": pl.Int16,
            "due_at": pl.Datetime("us", "UTC"),
            "confirmation": pl.Boolean,
        },
    )


def quotas(rows: dict[bytes, tuple[int, int]]) -> pl.DataFrame:
    return pl.DataFrame(
        {
            "tenant_id": list(rows),
            "weight": [weight for weight, _ in rows.values()],
            "allowance": [allowance for _, allowance in rows.values()],
        },
        schema={"tenant_id": pl.Binary, "weight": pl.UInt16, "allowance": pl.Int64},
    )


def shares(frame: pl.DataFrame) -> dict[bytes, int]:
    return dict(frame.group_by("tenant_id").len().rows())


def test_no_limit_takes_all() -> None:
    assert shares(fair_share(candidates({b"a": 3, b"b": 2}), quotas({}), None)) == {b"a": 3, b"b": 2}


def test_an_exhausted_allowance_takes_none_and_leaves_the_rest_alone() -> None:
    assert shares(fair_share(candidates({b"a": 3, b"b": 2}), quotas({b"a": (1, -4)}), None)) == {b"b": 2}


def test_confirmations_then_priority_then_age() -> None:
    frame = candidates({b"a": 4}).with_columns(
        priority=pl.Series([0, 0, 9, 0], dtype=pl.Int16), confirmation=pl.Series([False, False, False, True])
    )
    assert fair_share(frame, quotas({b"a": (1, 3)}), None)["source_url_id"].to_list() == [3, 2, 0]


@given(
    st.dictionaries(
        st.sampled_from([b"a", b"b", b"c", b"d"]), st.tuples(st.integers(1, 40), st.integers(1, 9)), min_size=1
    ),
    st.integers(0, 120),
)
def test_shares_are_fair(tenants: dict[bytes, tuple[int, int]], capacity: int) -> None:
    demand = {tenant: wanted for tenant, (wanted, _) in tenants.items()}
    weight = {tenant: heavy for tenant, (_, heavy) in tenants.items()}
    got = shares(fair_share(candidates(demand), quotas({t: (w, 1000) for t, w in weight.items()}), capacity))
    assert sum(got.values()) == min(capacity, sum(demand.values())), "nothing is left while somebody wants it"
    for tenant, count in got.items():
        assert count <= demand[tenant]
    # max-min: whoever did not get all it wanted has, for its weight, no less than anybody else (but for rounding)
    for hungry in (t for t in demand if got.get(t, 0) < demand[t]):
        for other in demand:
            assert (got.get(hungry, 0) + len(tenants)) / weight[hungry] >= (got.get(other, 0) - len(tenants)) / weight[
                other
            ]
