"""The terminal. Here: one console for all commands' tables. Not here: what is shown."""

from __future__ import annotations

from rich.console import Console

WIDTH_WITHOUT_TERMINAL = 160


def wide_console(*, stderr: bool = False) -> Console:
    """A terminal's own width; into a file or a pipe, wide enough that no cell is cut."""
    console = Console(stderr=stderr)
    return console if console.is_terminal else Console(stderr=stderr, width=WIDTH_WITHOUT_TERMINAL)
