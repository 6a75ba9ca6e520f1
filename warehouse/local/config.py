"""The local stack: which parts run here, on which ports, in which folder."""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel, Field


class StackSettings(BaseModel):
    folder: Path = Field(Path(".stack"), description="everything the stack writes; ignored by git, safe to delete when it is down")
    dagster_port: int = Field(13000, ge=1, le=65535, description="webserver")
    start_timeout_s: float = 120.0
