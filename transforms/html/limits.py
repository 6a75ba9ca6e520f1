"""How much of a page is read. Here: the limits, and cutting a body before the tree builder sees it. Not here: CPU time
(`crawl.parse_pool` kills a worker that takes too long).

A cut page is marked truncated: a link may still be found on it, none is proven absent.
"""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ParseLimits:
    max_bytes: int = 10 * 1024 * 1024
    """Decoded body bytes that are read."""
    max_nodes: int = 400_000
    """Tags and comments that are read (each makes a node or ends one)."""
    max_links: int = 50_000
    """Links that are written down."""
    max_depth: int = 10_000
    """Open elements at once; tree building is quadratic in it (10,000 take about 0.4 s)."""
    max_anchor_chars: int = 4_096
    cpu_s: float = 2.0
    """CPU seconds that one page may take; kept by the worker pool, not in here."""


_TAG = re.compile(rb"<(/?)([a-zA-Z][^\t\n\f\r />]*)")
_FLAT = frozenset(
    b"area base br col embed hr img input link meta source track wbr param option optgroup li p dd dt tr td th "
    b"tbody thead tfoot rp rt body html head colgroup frame".split()
)
"""Void elements, and those that a sibling closes by itself: they do not add up to depth."""


def cut(body: bytes, limits: ParseLimits) -> tuple[bytes, str | None]:
    """The part of a body that is parsed, and the name of the limit that cut it (`bytes`, `nodes`, `depth`) or None.

    Looks at every tag only where the number of tags could be a danger at all, so ordinary pages pay for one `count`.
    """
    reason = None
    if len(body) > limits.max_bytes:
        body, reason = body[: limits.max_bytes], "bytes"
    tags = body.count(b"<")
    if tags > limits.max_nodes:
        at = -1
        for match in _nth(body, limits.max_nodes):
            at = match
        body, reason = body[:at], "nodes"
        tags = limits.max_nodes
    if tags > limits.max_depth:
        at = _too_deep(body, limits.max_depth)
        if at >= 0:
            body, reason = body[:at], "depth"
    return body, reason


def _nth(body: bytes, count: int) -> list[int]:
    """Position of the `count`-th `<`, as a list of one."""
    parts = body.split(b"<", count)
    return [len(body) - len(parts[-1]) - 1]


def _too_deep(body: bytes, max_depth: int) -> int:
    """Where the estimate of open elements passes `max_depth`; -1 when it never does."""
    depth = 0
    for match in _TAG.finditer(body):
        if match.group(1):
            depth = max(0, depth - 1)
        elif match.group(2).lower() not in _FLAT:
            depth += 1
            if depth > max_depth:
                return match.start()
    return -1
