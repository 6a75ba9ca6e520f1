"""dbt in this process: `dbtRunner` over `dbt_project/`, about two seconds a run once Python is warm.

Here: the arguments (a pure function), the environment, and a run with its outcome in one sentence. Not here: the
models, Dagster's assets over the manifest. Nothing is written into the checkout: target/ and logs/ go to the stack
folder. The password travels in an environment variable that dbt keeps out of its logs and its manifest, never on a
command line.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from transforms.errors import BacklinksError, PermanentError, TransientError
from transforms.windows import Window
from warehouse.clickhouse.config import ClickHouseSettings

PROJECT_DIR = Path(__file__).resolve().parents[2] / "dbt_project"
"""Absolute: dbt resolves a relative folder against whatever the working directory is."""

PASSWORD_VARIABLE = "DBT_ENV_SECRET_BACKLINKS_CLICKHOUSE_PASSWORD"  # noqa: S105  # a name

_ONE_AT_A_TIME = threading.RLock()
"""dbt keeps flags, adapters and the environment per process."""

_parsed: dict[tuple[str, Path], tuple[float, Any]] = {}
"""Parsed projects by database and work folder, with the age of the newest file: a warm process parses once, not for
each window (other `--vars` would make dbt parse everything anew, 1 to 3 s)."""


class DbtFailed(PermanentError):
    """A model or a test failed; the message names it."""


class DbtCannotConnect(TransientError):
    """ClickHouse did not answer dbt."""


@dataclass(frozen=True)
class DbtReport:
    """What a run did: seconds by model, and the failures of tests that only warn."""

    models: dict[str, float] = field(default_factory=dict)
    tests_passed: int = 0
    warnings: tuple[str, ...] = ()


def dbt_arguments(
    command: str, window: Window | tuple[datetime, datetime] | None = None, select: Sequence[str] | str | None = None,
    *, full_refresh: bool = False, variables: Mapping[str, Any] | None = None,
) -> list[str]:  # fmt: skip
    """Arguments of dbt for a command and a window: pure, no paths of this machine, no secrets.

    `window` may be a pair (start, end): a range run folds all its windows at once. Without one every window is folded.
    `variables`: other vars of dbt_project.yml.
    """
    arguments = [command]
    values = dict(variables or {})
    if window is not None:
        start, end = (window.start, window.end) if isinstance(window, Window) else window
        values |= {"window_start": _literal(start), "window_end": _literal(end)}
    if values:
        arguments += ["--vars", json.dumps(values)]
    if select:
        arguments += ["--select", *([select] if isinstance(select, str) else select)]
    if full_refresh:
        arguments.append("--full-refresh")
    return arguments


def dbt_environment(settings: ClickHouseSettings) -> dict[str, str]:
    """Environment variables that `dbt_project/profiles.yml` reads; also for a dbt that Dagster starts."""
    return {
        "BACKLINKS_CLICKHOUSE__HOST": settings.host,
        "BACKLINKS_CLICKHOUSE__PORT": str(settings.port),
        "BACKLINKS_CLICKHOUSE__USER": settings.user,
        "BACKLINKS_CLICKHOUSE__DATABASE": settings.database,
        "BACKLINKS_CLICKHOUSE__SECURE": str(settings.secure).lower(),
        PASSWORD_VARIABLE: settings.password.get_secret_value(),
        "DBT_SEND_ANONYMOUS_USAGE_STATS": "false",
    }


def manifest_path(work: Path) -> Path:
    return work / "target" / "manifest.json"


def prepare_manifest(settings: ClickHouseSettings, work: Path) -> Path:
    """The manifest's path; it is parsed once (no server is needed) if it is missing or older than the project's files.

    `work`: the stack's folder for dbt (`target/` and `logs/` go below it).
    """
    manifest = manifest_path(work)
    if not manifest.is_file() or manifest.stat().st_mtime < _newest_source():
        _parse(settings, work)
    return manifest


def run_dbt(
    settings: ClickHouseSettings,
    window: Window | tuple[datetime, datetime] | None,
    select: Sequence[str] | str | None = None,
    *,
    work: Path,
    command: str = "run",
    full_refresh: bool = False,
    variables: Mapping[str, Any] | None = None,
) -> DbtReport:
    """Run models (`run`), tests (`test`) or both (`build`) for a window. Safe to repeat; one at a time per database.

    Raises `DbtFailed` naming the model or test that failed, `TransientError` when ClickHouse does not answer.
    """
    arguments = dbt_arguments(command, window, select, full_refresh=full_refresh, variables=variables)
    results = _invoke(settings, work, arguments, _parse(settings, work))
    return DbtReport(
        models={one.node.name: one.execution_time for one in results if one.node.resource_type == "model"},
        tests_passed=sum(str(one.status) == "pass" for one in results),
        warnings=tuple(f"{one.node.name}: {one.message}" for one in results if str(one.status) == "warn"),
    )


def _parse(settings: ClickHouseSettings, work: Path) -> Any:
    """dbt's manifest of the project for this database, from this process's memory if the files have not changed."""
    place, newest = (settings.database, work), _newest_source()
    with _ONE_AT_A_TIME:
        if place not in _parsed or _parsed[place][0] < newest:
            _parsed[place] = (newest, _invoke(settings, work, dbt_arguments("parse")))
        return _parsed[place][1]


def _newest_source() -> float:
    return max(path.stat().st_mtime for path in PROJECT_DIR.rglob("*") if path.suffix in {".sql", ".yml", ".md"})


def _invoke(settings: ClickHouseSettings, work: Path, arguments: list[str], manifest: Any = None) -> Any:
    """Run dbt. Returns what dbt returns: a manifest for `parse`, else the list of results. Raises for any failure."""
    from dbt.cli.main import dbtRunner  # 1.5 s to import: only when it is needed

    work.mkdir(parents=True, exist_ok=True)
    common = [
        "--project-dir", str(PROJECT_DIR), "--profiles-dir", str(PROJECT_DIR),
        "--target-path", str(work / "target"), "--log-path", str(work / "logs"),
    ]  # fmt: skip
    quiet = ["--quiet", "--no-use-colors", "--log-level-file", "info", "--no-version-check"]
    with _ONE_AT_A_TIME, _environment(dbt_environment(settings)):
        outcome = dbtRunner(manifest=manifest).invoke([*quiet, *arguments, *common])
    results: list[Any] = list(getattr(outcome.result, "results", None) or [])
    failures = [one for one in results if str(one.status) in {"error", "fail", "runtime error"}]
    if failures:
        raise _failure(failures)
    if outcome.exception is not None:
        raise _explained(str(outcome.exception)) from outcome.exception
    if not outcome.success:
        raise DbtFailed(f"dbt {arguments[0]} failed; see {work / 'logs' / 'dbt.log'}")
    return outcome.result if arguments[0] == "parse" else results


def _failure(failures: list[Any]) -> BacklinksError:
    first = failures[0]
    message = " ".join(str(first.message or "no message").split())
    more = f" (and {len(failures) - 1} more)" if len(failures) > 1 else ""
    return _explained(f"dbt {first.node.resource_type} {first.node.name}: {message[:600]}{more}")


def _explained(message: str) -> BacklinksError:
    unreachable = ("Connection refused", "Max retries exceeded", "Could not connect", "timed out", "ConnectionError")
    kind = DbtCannotConnect if any(sign in message for sign in unreachable) else DbtFailed
    return kind(" ".join(message.split())[:800])


@contextmanager
def _environment(values: dict[str, str]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _literal(at: datetime) -> str:
    return at.strftime("%Y-%m-%d %H:%M:%S")
