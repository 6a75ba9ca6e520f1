"""From settings to the objects that stages are handed. Here: that one step. Not here: the objects."""

from __future__ import annotations

from pathlib import Path

from assets.platform import Platform
from orchestration.settings import Settings

ROOT = Path(__file__).resolve().parent.parent
"""The checkout: relative paths in settings start here, whatever the working directory."""


def platform(settings: Settings) -> Platform:
    return Platform(
        ledger_settings=settings.ledger,
        clickhouse_settings=settings.clickhouse,
        object_settings=settings.objects,
        crawl=settings.crawl,
        clock=settings.clock,
        root=ROOT,
        work_folder=ROOT / settings.stack.folder / "work",
        shards=settings.shards,
        window_length=settings.window_length,
        tenant=settings.tenant,
    )
