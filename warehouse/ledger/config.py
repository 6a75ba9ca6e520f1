"""Where the MySQL ledger is."""

from __future__ import annotations

from pydantic import BaseModel, Field, SecretStr


class LedgerSettings(BaseModel):
    host: str = "127.0.0.1"
    port: int = Field(13306, ge=1, le=65535)
    user: str = "backlinks"
    password: SecretStr = SecretStr("backlinks-local")
    database: str = Field("backlinks", pattern=r"^[A-Za-z0-9_]{1,64}$")
    identity_database: str = Field(
        "backlinks_identity", pattern=r"^[A-Za-z0-9_]{1,64}$", description="schema of the identity tables"
    )
    connect_timeout_s: float = 5.0
