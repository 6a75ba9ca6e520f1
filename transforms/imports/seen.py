"""Which edges of a file were seen before, in about 20 bytes an edge: a million rows cost 20 MB, not a Python set's 150.

Here: the set, as sorted runs that are merged when they grow alike (a log-structured merge, so that adding n edges costs
O(n log n) overall). Not here: what an edge's key is (`transforms.imports.rows`).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

U64 = npt.NDArray[np.uint64]
U32 = npt.NDArray[np.uint32]


class SeenEdges:
    """Edges by 128-bit key, each with the line on which it came first."""

    def __init__(self) -> None:
        self._runs: list[tuple[U64, U64, U32]] = []

    def __len__(self) -> int:
        return sum(len(run[0]) for run in self._runs)

    def add(self, keys: bytes, lines: list[int]) -> U32:
        (
            """Add rows (16 key bytes each, file order). For each row the line of its edge's first row, 0 if new."""
            ""
        )
        if not lines:
            return np.zeros(0, dtype=np.uint32)
        pairs = np.frombuffer(keys, dtype="<u8").reshape(-1, 2)
        high, low, line = pairs[:, 0].copy(), pairs[:, 1].copy(), np.asarray(lines, dtype=np.uint32)
        first = np.zeros(len(line), dtype=np.uint32)
        for run_high, run_low, run_line in self._runs:
            at = np.searchsorted(run_high, high)
            at[at == len(run_high)] = 0
            hit = (run_high[at] == high) & (run_low[at] == low)
            first[hit] = run_line[at[hit]]
        new = np.flatnonzero(first == 0)
        order = new[np.lexsort((line[new], low[new], high[new]))]
        if not len(order):
            return first
        h, lo, ln = high[order], low[order], line[order]
        leads = np.concatenate(([True], (h[1:] != h[:-1]) | (lo[1:] != lo[:-1])))
        group = np.cumsum(leads) - 1
        lead_line = ln[leads]
        first[order] = np.where(leads, 0, lead_line[group])
        self._push((h[leads], lo[leads], lead_line))
        return first

    def _push(self, run: tuple[U64, U64, U32]) -> None:
        while self._runs and len(self._runs[-1][0]) < 2 * len(run[0]):
            other = self._runs.pop()
            high = np.concatenate((other[0], run[0]))
            low = np.concatenate((other[1], run[1]))
            line = np.concatenate((other[2], run[2]))
            order = np.lexsort((low, high))
            run = (high[order], low[order], line[order])
        self._runs.append(run)
