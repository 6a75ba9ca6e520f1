"""The local stack: which parts run here, on which ports, in which folder."""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel, Field


class StackSettings(BaseModel):
    folder: Path = Field(
        Path(".stack"),
        description=(
            "everything the stack writes; ignored by git, safe to delete when it is down; relative: to the "
            "project, not to the working directory"
        ),
    )
    dagster_port: int = Field(13000, ge=1, le=65535, description="webserver")
    start_timeout_s: float = Field(120.0, gt=0, description="how long one part may take to answer")
    stop_timeout_s: float = Field(30.0, gt=0, description="how long one part may take to stop before it is killed")
    cache: Path | None = Field(
        None,
        description=(
            "downloaded server programs, shared by all checkouts; null: $XDG_CACHE_HOME/backlinks or ~/.cache/backlinks"
        ),
    )
    mysqld: str = Field(
        "auto",
        description=(
            "auto: a MySQL 8.0+ mysqld on PATH, else a private copy of Debian's package; download: always the "
            "private copy; else the path of a mysqld"
        ),
    )
    apt_mirror: str | None = Field(
        None, description="Debian mirror for the private copy; null: the mirror this machine's own apt uses"
    )
    apt_suite: str | None = Field(
        None, description="suite that holds mysql-server-core; null: unstable on Debian, the machine's own on Ubuntu"
    )
    mysql_buffer_pool_mb: int = Field(256, ge=8, description="InnoDB buffer pool")
    clickhouse_memory_mb: int = Field(4096, ge=512, description="most memory all ClickHouse queries together may use")
    clickhouse_threads: int | None = Field(
        None, ge=1, description="max_threads of a ClickHouse query; null: as many as there are cores"
    )
