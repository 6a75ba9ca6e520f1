"""Bytes off the network, safely: egress gate, robots, politeness, fetch, outcomes.

Here: everything that opens a socket to somebody else's server. Not here: databases, object stores, Dagster (they are
handed in behind the small protocols of `crawl.ports`).

Ways in: `crawl_batch` (trio), `run_batch` (anywhere), `Stop`; loaded when first used, so that settings stay light.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from crawl.runner import crawl_batch, run_batch
    from crawl.stop import Stop
    from crawl.summary import CrawlSummary

__all__ = ["CrawlSummary", "Stop", "crawl_batch", "run_batch"]

_HOMES = {
    "CrawlSummary": "crawl.summary",
    "Stop": "crawl.stop",
    "crawl_batch": "crawl.runner",
    "run_batch": "crawl.runner",
}


def __getattr__(name: str) -> Any:
    import importlib

    if name not in _HOMES:
        raise AttributeError(f"module 'crawl' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)
