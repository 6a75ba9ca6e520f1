"""All settings, typed, from the environment and `.env` (prefix `BACKLINKS_`, nested with `__`).

Example: `BACKLINKS_LEDGER__HOST=db.internal BACKLINKS_LEDGER__PASSWORD=... BACKLINKS_SHARDS=8`. The defaults are the
local stack of `make up`. Here: the composition. Not here: the parts (each room owns its own).
"""

from __future__ import annotations

from datetime import datetime, timedelta

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict

from crawl.config import CrawlSettings
from transforms.clock import Clock, FixedClock, WallClock
from warehouse.clickhouse.config import ClickHouseSettings
from warehouse.ledger.config import LedgerSettings
from warehouse.local.config import StackSettings
from warehouse.objects.config import ObjectStoreSettings


class Settings(BaseSettings):
    model_config = SettingsConfigDict(
        env_prefix="BACKLINKS_", env_nested_delimiter="__", env_file=".env", extra="ignore", nested_model_default_partial_update=True
    )

    ledger: LedgerSettings = LedgerSettings()
    clickhouse: ClickHouseSettings = ClickHouseSettings()
    objects: ObjectStoreSettings = ObjectStoreSettings()
    stack: StackSettings = StackSettings()
    crawl: CrawlSettings = CrawlSettings()
    shards: int = Field(4, ge=1, le=64, description="shards of work; a domain lives in exactly one")
    window_minutes: int = Field(60, ge=5, le=1440, description="length of a window")
    first_window: datetime = Field(datetime(2026, 11, 1), description="start of the first partition (UTC)")  # noqa: DTZ001
    tenant: str = Field("default", description="tenant of the `backlinks` command's projects")
    clock_now: datetime | None = Field(None, description="DEMO AND TESTS ONLY: a clock that stands still at this instant (UTC)")

    @property
    def window_length(self) -> timedelta:
        return timedelta(minutes=self.window_minutes)

    @property
    def clock(self) -> Clock:
        return WallClock() if self.clock_now is None else FixedClock(self.clock_now)
