"""The set of edges seen, against a plain dict."""

from __future__ import annotations

import hashlib

from hypothesis import given
from hypothesis import strategies as st

from transforms.imports.seen import SeenEdges


@given(st.lists(st.lists(st.integers(0, 30), max_size=40), max_size=12))
def test_first_lines_are_those_of_a_dict(batches: list[list[int]]) -> None:
    seen, expected, line = SeenEdges(), dict[int, int](), 1
    for batch in batches:
        lines = list(range(line, line + len(batch)))
        line += len(batch)
        want = []
        for edge, number in zip(batch, lines, strict=True):
            want.append(expected.get(edge, 0))
            expected.setdefault(edge, number)
        keys = b"".join(hashlib.sha256(str(edge).encode()).digest()[:16] for edge in batch)
        assert seen.add(keys, lines).tolist() == want
    assert len(seen) == len(expected)
