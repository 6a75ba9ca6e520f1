"""Settings of the commands that need no stack. Here: the crawler's part of `orchestration.settings`, read from the same
variables, without importing database drivers (seconds). Not here: anything else.
"""

from __future__ import annotations

import os
from datetime import datetime
from typing import Any

from pydantic_settings import BaseSettings, SettingsConfigDict

from crawl.config import CrawlSettings
from transforms.clock import Clock, FixedClock, WallClock


class LightSettings(BaseSettings):
    model_config = SettingsConfigDict(
        env_prefix="BACKLINKS_",
        env_nested_delimiter="__",
        extra="ignore",
        nested_model_default_partial_update=True,
    )

    crawl: CrawlSettings = CrawlSettings()
    clock_now: datetime | None = None

    def __init__(self, **values: Any) -> None:
        values.setdefault("_env_file", os.environ.get("BACKLINKS_ENV_FILE", ".env"))
        super().__init__(**values)

    @property
    def clock(self) -> Clock:
        return WallClock() if self.clock_now is None else FixedClock(self.clock_now)
