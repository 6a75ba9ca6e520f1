"""The ClickHouse front as a part of the stack: its command line, its health. Not here: the front (`front`)."""

from __future__ import annotations

import http.client
import json
import sys
from base64 import b64encode
from collections.abc import Callable

from warehouse.clickhouse.config import ClickHouseSettings
from warehouse.local.config import StackSettings
from warehouse.local.errors import StackError
from warehouse.local.paths import StackFolder, project_root
from warehouse.local.processes import Process

PART = "clickhouse"
PORT_SETTING = "BACKLINKS_CLICKHOUSE__PORT"


def process(clickhouse: ClickHouseSettings, settings: StackSettings, folder: StackFolder) -> Process:
    """The front as a part of the stack."""
    users = [{"name": clickhouse.user, "password": clickhouse.password.get_secret_value(), "readonly": False}]
    threads = ["--threads", str(settings.clickhouse_threads)] if settings.clickhouse_threads else []
    return Process(
        name=PART,
        argv=(
            sys.executable, "-m", "warehouse.local.front",
            "--data", str(folder.clickhouse_data),
            "--port", str(clickhouse.port),
            "--memory-mb", str(settings.clickhouse_memory_mb),
            *threads,
        ),
        env={"BACKLINKS_FRONT_USERS": json.dumps(users), "PYTHONUNBUFFERED": "1"},
        folder=project_root(),  # `-m` finds the package here, wherever the caller stands
        health=health(clickhouse),
        port=clickhouse.port,
        port_setting=PORT_SETTING,
        explain=explain,
    )  # fmt: skip


def health(clickhouse: ClickHouseSettings) -> Callable[[], str | None]:
    """A check that runs `SELECT 1` as the configured user; a refused password is a `StackError`."""
    credentials = f"{clickhouse.user}:{clickhouse.password.get_secret_value()}".encode()

    def check() -> str | None:
        kind = http.client.HTTPSConnection if clickhouse.secure else http.client.HTTPConnection
        connection = kind(clickhouse.host, clickhouse.port, timeout=5)
        try:
            connection.request(
                "POST", "/", body=b"SELECT 1", headers={"Authorization": "Basic " + b64encode(credentials).decode()}
            )
            answer = connection.getresponse()
            text = answer.read(4096).decode("utf-8", "replace")
        except (OSError, http.client.HTTPException) as error:
            return getattr(error, "strerror", None) or str(error) or type(error).__name__
        finally:
            connection.close()
        if answer.getheader("X-ClickHouse-Exception-Code") == "516":
            raise StackError(
                f"clickhouse: the server on port {clickhouse.port} refuses the password of user {clickhouse.user!r}; "
                "set "
                "BACKLINKS_CLICKHOUSE__PASSWORD to the one it was started with, or restart the stack (`backlinks "
                "stack down`, `backlinks stack up`)."
            )
        return (
            None
            if answer.status == 200 and text == "1\n"
            else text.splitlines()[0]
            if text
            else f"status {answer.status}"
        )

    return check


def explain(log: str) -> str | None:
    """The front's own sentence, if it ended with one."""
    said = [line for line in log.splitlines() if line.startswith("clickhouse: ")]
    return said[-1] if said else None
