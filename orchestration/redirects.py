"""The redirects of links that go through a source's own redirector, for people: what stage `redirect_checks` saw, by edge.
Here: reading and one line of text each. Not here: checking (`assets.redirect_checks`)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa
import pyarrow.dataset as pads

from assets.platform import Platform
from transforms.reasons import Reason
from transforms.schemas import LINK_REDIRECTS
from transforms.windows import Window

THROUGH_REDIRECTS = frozenset({Reason.LINK_FOUND_VIA_REDIRECT.value, Reason.REDIRECT_UNCHECKED.value})
"""Evidence reasons that stand on a check of a redirector."""


def checks(platform: Platform, window: Window, source_url_ids: Iterable[int]) -> list[dict[str, Any]]:
    """`LINK_REDIRECTS` rows of these sources in a window, proven ones first, then in document order."""
    sources = pa.array(sorted(set(source_url_ids)), pa.uint64())
    only = pads.field("source_url_id").isin(sources)
    rows = platform.datasets.read(LINK_REDIRECTS, window, filters=only).to_pylist()
    return sorted(rows, key=lambda row: (row["final_identity"] is None, row["source_url_id"], row["position"]))


def chain(row: dict[str, Any]) -> str:
    """`http://a/go/1 (302) → http://b/page`, or how far it went and why no further."""
    hops = [f"{hop['url']} ({hop['status'] or hop['reason']})" for hop in row["hops"]] or [row["link_identity"]]
    if row["final_identity"] is not None:
        return " → ".join([*hops, row["final_identity"]])
    return f"{' → '.join(hops)}: {row['detail'] or row['reason']}"


def by_edge(rows: Iterable[dict[str, Any]]) -> dict[int, str]:
    """The chain that says most about each edge: a proven one, else one that must be waited for."""
    found: dict[int, str] = {}
    for row in rows:
        edges = row["edges"] if row["final_identity"] is not None else row["waiting_edges"]
        for edge in edges:
            found.setdefault(edge, chain(row))
    return found
