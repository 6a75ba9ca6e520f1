"""Settings of the commands that need no stack. Here: the crawler's part of `orchestration.settings`, read from the same
variables, without importing database drivers (seconds). Not here: anything else.
"""

from __future__ import annotations

from datetime import datetime

from pydantic_settings import BaseSettings, SettingsConfigDict

from crawl.config import CrawlSettings
from transforms.clock import Clock, FixedClock, WallClock


class LightSettings(BaseSettings):
    model_config = SettingsConfigDict(
        env_prefix="BACKLINKS_",
        env_nested_delimiter="__",
        env_file=".env",
        extra="ignore",
        nested_model_default_partial_update=True,
    )

    crawl: CrawlSettings = CrawlSettings()
    clock_now: datetime | None = None

    @property
    def clock(self) -> Clock:
        return WallClock() if self.clock_now is None else FixedClock(self.clock_now)
