"""A connection to ClickHouse, and its errors in one sentence. Here: `connect`. Not here: tables and queries."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import clickhouse_connect
from clickhouse_connect.driver.client import Client
from clickhouse_connect.driver.exceptions import ClickHouseError, DatabaseError, OperationalError, StreamFailureError

from transforms.errors import PermanentError, TransientError
from warehouse.clickhouse.config import ClickHouseSettings

_WRONG_CREDENTIALS = (192, 193, 194, 516)  # UNKNOWN_USER, WRONG_PASSWORD, REQUIRED_PASSWORD, AUTHENTICATION_FAILED
_UNKNOWN_DATABASE = 81
_UNKNOWN_TABLE = 60
_BUSY = (159, 202, 203, 209, 210, 241, 242, 243, 252, 319, 425, 999)
"""Timeouts, too many queries or parts, no free memory or space for now, lost sockets: a retry can help."""


class ClickHouseDown(TransientError):
    """ClickHouse does not answer, or not now."""


class ClickHouseRefused(PermanentError):
    """ClickHouse answers and says no: credentials, a name that is not there, a query it cannot run."""


def connect(settings: ClickHouseSettings, *, database_must_exist: bool = False) -> Client:
    """A client bound to `settings.database`, safe to share between threads (it holds no server session).

    The database may still be missing (`ensure_schema` makes it) unless `database_must_exist`. Raises `ClickHouseDown`
    when nothing answers, `ClickHouseRefused` for wrong credentials and for a missing database.
    """
    with explained(settings, "connect"):
        client = clickhouse_connect.get_client(
            host=settings.host,
            port=settings.port,
            username=settings.user,
            password=settings.password.get_secret_value(),
            interface="https" if settings.secure else "http",
            connect_timeout=settings.connect_timeout_s,
            send_receive_timeout=settings.query_timeout_s,
            autogenerate_session_id=False,
            query_retries=0,
        )
        if database_must_exist:
            found = client.query(
                "SELECT count() FROM system.databases WHERE name = {name:String}",
                parameters={"name": settings.database},
            )
            if not found.result_rows[0][0]:
                client.close()
                raise ClickHouseRefused(_no_database(settings))
    client.database = settings.database
    return client


def settings_of(client: Client) -> ClickHouseSettings:
    """Where a client points, as far as an error message needs it."""
    host, _, port = str(getattr(client, "url", "")).split("://", 1)[-1].partition(":")
    return ClickHouseSettings(
        host=host or "127.0.0.1", port=int(port) if port.isdigit() else 8123, database=client.database or "default"
    )


@contextmanager
def explained(settings: ClickHouseSettings, doing: str) -> Iterator[None]:
    """Turn the driver's errors into one sentence that names the server and what was being done."""
    where = f"{settings.host}:{settings.port}"
    try:
        yield
    except (DatabaseError, StreamFailureError) as error:
        code = error_code(error)
        if code is None and isinstance(error, OperationalError):  # the driver's word for a socket that failed
            raise ClickHouseDown(
                f"ClickHouse does not answer at {where} (could not {doing}): start it with `make up`, "
                "or set BACKLINKS_CLICKHOUSE__HOST and __PORT"
            ) from error
        if code in _WRONG_CREDENTIALS:
            raise ClickHouseRefused(
                f"ClickHouse at {where} refused user {settings.user!r}: set BACKLINKS_CLICKHOUSE__USER and __PASSWORD"
            ) from None
        if code == _UNKNOWN_DATABASE:
            raise ClickHouseRefused(_no_database(settings)) from error
        if code == _UNKNOWN_TABLE:
            raise ClickHouseRefused(
                f"could not {doing} on ClickHouse at {where}: {_first_line(error)}; "
                "tables that dbt makes appear with the first run of a window"
            ) from error
        kind = ClickHouseDown if code is None or code in _BUSY else ClickHouseRefused
        raise kind(f"could not {doing} on ClickHouse at {where}: {_first_line(error)}") from error
    except ClickHouseError as error:
        raise ClickHouseRefused(f"could not {doing} on ClickHouse at {where}: {_first_line(error)}") from error


def error_code(error: BaseException) -> int | None:
    """ClickHouse's own error number, when the driver passes it on."""
    code = getattr(error, "code", None)
    if isinstance(code, int):
        return code
    text = str(error)
    for marker in ("Code: ", "code: ", "error code "):
        if marker in text:
            digits = text.split(marker, 1)[1].split(".", 1)[0].split(" ", 1)[0].strip("., )")
            if digits.isdigit():
                return int(digits)
    return None


def _no_database(settings: ClickHouseSettings) -> str:
    return (
        f"ClickHouse at {settings.host}:{settings.port} has no database {settings.database!r}: `make up` creates it, "
        "or set BACKLINKS_CLICKHOUSE__DATABASE"
    )


def _first_line(error: BaseException) -> str:
    text = " ".join(str(error).split())
    for marker in ("DB::Exception: ",):
        if marker in text:
            text = text.split(marker, 1)[1]
    return text[:300]
