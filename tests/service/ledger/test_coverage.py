"""Hosts with many pages, for projected coverage."""

from __future__ import annotations

import pytest

from tests.service.ledger import data
from warehouse.ledger import Ledger, lookups, origins

pytestmark = pytest.mark.service


def test_hosts_are_counted_with_their_pace(fresh_ledger: Ledger) -> None:
    data.scene(fresh_ledger, sources=3, host="slow.example.org")
    data.scene(fresh_ledger, sources=2, host="other.example.org")
    origins.set_override(fresh_ledger, "https://slow.example.org", min_gap_s=30.0, max_in_flight=2, actor="test")
    found = lookups.busiest_hosts(fresh_ledger, gap_s=1.0, in_flight=1, least=1).to_pylist()
    assert found == [
        {"host": "slow.example.org", "sources": 3, "gap_s": 30.0, "in_flight": 2},
        {"host": "other.example.org", "sources": 2, "gap_s": 1.0, "in_flight": 1},
    ]
    assert lookups.busiest_hosts(fresh_ledger, gap_s=1.0, in_flight=1, least=2).num_rows == 1
