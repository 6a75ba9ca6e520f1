"""The terminal. Here: one console for all commands' tables, on which text from outside stays text. Not here: what is shown."""

from __future__ import annotations

import re
from typing import Any

from rich.console import Console
from rich.text import Text

WIDTH_WITHOUT_TERMINAL = 160
_STEERS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")
"""Controls (an ESC starts a command to the terminal) and marks that reorder text; tab and newline may stay."""


def visible(text: str) -> str:
    """Text from outside without the power to steer a terminal: each control shows as U+FFFD."""
    return _STEERS.sub("\ufffd", text)


class PlainConsole(Console):
    """Strings are shown as they are: an anchor text `[red]`, `[/]` or `:boom:` is no markup, an ESC no command.

    Styles come from `style=` arguments and `Text` objects alone.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(markup=False, emoji=False, highlight=False, **options)

    def render_str(self, text: str, **options: Any) -> Text:
        return super().render_str(visible(text), **options)


def plain_console(*, stderr: bool = False) -> Console:
    """For whatever shows text from outside; as wide as `wide_console`."""
    console = PlainConsole(stderr=stderr)
    return console if console.is_terminal else PlainConsole(stderr=stderr, width=WIDTH_WITHOUT_TERMINAL)


def wide_console(*, stderr: bool = False) -> Console:
    """A terminal's own width; into a file or a pipe, wide enough that no cell is cut. Reads markup: own text only."""
    console = Console(stderr=stderr)
    return console if console.is_terminal else Console(stderr=stderr, width=WIDTH_WITHOUT_TERMINAL)
