"""Where ClickHouse is."""

from __future__ import annotations

from pydantic import BaseModel, Field, SecretStr


class ClickHouseSettings(BaseModel):
    host: str = "127.0.0.1"
    port: int = Field(18123, ge=1, le=65535)
    user: str = "backlinks"
    password: SecretStr = SecretStr("backlinks-local")
    database: str = Field("backlinks", pattern=r"^[A-Za-z0-9_]{1,64}$")
    secure: bool = False
    connect_timeout_s: float = 5.0
    query_timeout_s: float = 600.0
