"""All settings, typed, from the environment and `.env` (prefix `BACKLINKS_`, nested with `__`).

Example: `BACKLINKS_LEDGER__HOST=db.internal BACKLINKS_LEDGER__PASSWORD=... BACKLINKS_SHARDS=8`. The defaults are the
local stack of `make up`. `BACKLINKS_ENV_FILE` names another file than `.env` (the demo writes one). Here: the composition.
Not here: the parts (each room owns its own).
"""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from pydantic import BaseModel, Field, SecretStr
from pydantic_settings import BaseSettings, SettingsConfigDict

from crawl.config import CrawlSettings
from transforms.clock import Clock, FixedClock, WallClock
from warehouse.clickhouse.config import ClickHouseSettings
from warehouse.ledger.config import LedgerSettings
from warehouse.local.config import StackSettings
from warehouse.objects.config import ObjectStoreSettings

ENV_FILE = "BACKLINKS_ENV_FILE"


class Settings(BaseSettings):
    model_config = SettingsConfigDict(
        env_prefix="BACKLINKS_",
        env_nested_delimiter="__",
        env_file=".env",
        extra="ignore",
        nested_model_default_partial_update=True,
    )

    ledger: LedgerSettings = LedgerSettings()
    clickhouse: ClickHouseSettings = ClickHouseSettings()
    objects: ObjectStoreSettings = ObjectStoreSettings()
    stack: StackSettings = StackSettings()
    crawl: CrawlSettings = CrawlSettings()
    shards: int = Field(4, ge=1, le=64, description="shards of work; a domain lives in exactly one")
    shards_before: int = Field(
        1,
        ge=1,
        le=64,
        description="most shards that earlier windows had: keeps their partitions when `shards` is lowered",
    )
    window_minutes: int = Field(60, ge=5, le=1440, description="length of a window")
    first_window: datetime = Field(datetime(2026, 11, 1), description="start of the first partition (UTC)")  # noqa: DTZ001
    tenant: str = Field("default", description="tenant of the `backlinks` command's projects")
    clock_now: datetime | None = Field(
        None, description="DEMO AND TESTS ONLY: a clock that stands still at this instant (UTC)"
    )

    def __init__(self, **values: Any) -> None:
        values.setdefault("_env_file", os.environ.get(ENV_FILE, ".env"))
        super().__init__(**values)

    def write_env(self, path: Path) -> None:
        """Write these settings as an env file that only its owner may read; `BACKLINKS_ENV_FILE` then brings them back."""
        lines = ["# Written by `backlinks demo`; deleted and written again with it."]
        for name in type(self).model_fields:
            value = _plain(getattr(self, name))
            if value is not None:
                text = value if isinstance(value, str) else json.dumps(value)
                quoted = text.replace("\\", "\\\\").replace("'", "\\'")  # as python-dotenv reads single quotes
                lines.append(f"BACKLINKS_{name.upper()}='{quoted}'")
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
            file.write("\n".join(lines) + "\n")

    @property
    def window_length(self) -> timedelta:
        return timedelta(minutes=self.window_minutes)

    @property
    def clock(self) -> Clock:
        return WallClock() if self.clock_now is None else FixedClock(self.clock_now)


def _plain(value: Any) -> Any:
    """A setting as JSON can hold it, secrets included (for the env file alone)."""
    if isinstance(value, SecretStr):
        return value.get_secret_value()
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat() if value.tzinfo else value.isoformat()
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, BaseModel):
        return {name: _plain(getattr(value, name)) for name in type(value).model_fields}
    if isinstance(value, dict):
        return {key: _plain(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in value]
    return value
