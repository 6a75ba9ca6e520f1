"""The command's table of contents. Errors that are meant for a person become one sentence on stderr and exit code 1."""

from __future__ import annotations

import importlib
import io
import logging
import sys
from typing import Any

import typer
from typer.core import TyperGroup
from typer.main import get_command

from transforms.errors import BacklinksError, TransientError

_COMMANDS: dict[str, tuple[str, str]] = {
    # name: (module:function or module:app, one line of help)
    "demo": ("orchestration.cli.demo:demo", "The whole flow on a scripted web, judged against its ground truth."),
    "check": ("orchestration.cli.check:check", "Import a file, verify every link now, show a table."),
    "import": ("orchestration.cli.import_:import_file", "Import a CSV of backlinks into a project."),
    "run": ("orchestration.cli.run:run", "Run all that is due now, or one window."),
    "status": ("orchestration.cli.status:status", "Projects, states, what is due, last windows."),
    "explain": ("orchestration.cli.explain:explain", "The chain of evidence of one edge."),
    "identities": ("orchestration.cli.identities:app", "Bring URL identities to this code's version of the rules."),
    "stack": ("orchestration.cli.stack:app", "The local stack: up, down, status, logs."),
    "url": ("orchestration.cli.url:url", "What a URL is to us, and why."),
    "parse": ("orchestration.cli.parse:parse", "What a page says: a page row and its links."),
    "robots": (
        "orchestration.cli.robots:robots",
        "Whether robots.txt lets an agent fetch a URL, and which rule says so.",
    ),
    "fetch": ("orchestration.cli.fetch:fetch", "Fetch a URL through every gate and show each decision."),
}


_EXAMPLES: dict[str, tuple[str, ...]] = {
    "demo": ("demo", "demo --no-ui"),
    "check": (
        "check ahrefs-export.csv --target example.com",
        "check links.txt --target example.com --target https://example.org/shop/* --to report.csv",
        "check ahrefs-export.csv --refetch --output json | jq .",
    ),
    "import": (
        "import semrush.csv --project shop --target example.com --interval-hours 24",
        "import semrush.csv --project shop --alert email:me@example.com --due-now",
    ),
    "run": ("run", "run --window 2026-12-01-10:00"),
    "status": ("status", "status --windows 48"),
    "explain": ("explain https://blog.example.net/post https://example.com/",),
    "url": ("url 'HTTP://Example.com:80/a/../b?x=1'",),
    "parse": ("parse page.html --url https://blog.example.net/post",),
    "robots": ("robots https://example.com/private",),
    "fetch": ("fetch https://example.com/",),
}


def _examples(command: str) -> str | None:
    """The end of a command's help. (`\\b`: click leaves the lines as they are.)"""
    lines = [f"  backlinks {line}" for line in _EXAMPLES.get(command, ())]
    return "\n".join(["\b", "Examples:", *lines]) if lines else None


class _Lazy(TyperGroup):
    """A group that imports a command's module only when that command is named."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in _COMMANDS:
            return None
        module, attribute = _COMMANDS[cmd_name][0].split(":")
        target: Any = getattr(importlib.import_module(module), attribute)
        if isinstance(target, typer.Typer):
            target.rich_markup_mode, target.pretty_exceptions_enable = None, False
            command = get_command(target)
        else:
            single = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
            single.command(epilog=_examples(cmd_name))(target)
            command = get_command(single)
        command.name = cmd_name
        return command

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in _COMMANDS.items()])


app = typer.Typer(
    cls=_Lazy, add_completion=False, no_args_is_help=True, rich_markup_mode=None, pretty_exceptions_enable=False,
    help="Backlink monitor: states with evidence that anyone can replay.",
    epilog="\b\nStart with:\n  backlinks demo                                     a play with known answers, two minutes\n"
    "  backlinks check FILE --target example.com          your own export, now\n"
    "  backlinks COMMAND --help                           options and examples",
)  # fmt: skip


@app.callback()
def _root() -> None:
    """Typer wants a callback on a group."""


def main() -> None:
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a terminal in Latin-1 shows Japanese as \u65e5, not a traceback
            stream.reconfigure(errors="backslashreplace")
    logging.getLogger("clickhouse_connect").setLevel(logging.CRITICAL)  # what it logs, its exception says again
    try:
        app()
    except BacklinksError as error:
        hint = " (a retry may help)" if isinstance(error, TransientError) else ""
        print(f"backlinks: {error}{hint}", file=sys.stderr)
        sys.exit(1)
    except KeyboardInterrupt:
        print("backlinks: stopped; what is done stays done, run it again to go on", file=sys.stderr)
        sys.exit(130)
    except BrokenPipeError:
        sys.exit(0)
