"""SQL texts that live in `.sql` files beside the code. Here: reading and splitting them. Not here: running them."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

_FOLDER = Path(__file__).parent / "sql"
_COMMENT = re.compile(r"^\s*--.*?$|\s--\s.*?$", re.MULTILINE)


@cache
def query(name: str) -> str:
    """The one statement in `sql/<name>.sql`, without comments."""
    (statement,) = split((_FOLDER / f"{name}.sql").read_text("utf-8"))
    return statement


@cache
def script(name: str) -> tuple[str, ...]:
    """The statements in `sql/<name>.sql`, in order."""
    return split((_FOLDER / f"{name}.sql").read_text("utf-8"))


def split(text: str) -> tuple[str, ...]:
    """Statements of a text: `-- ` comments are dropped, `;` at a line's end separates. No string of ours has either."""
    bare = _COMMENT.sub("", text)
    return tuple(part.strip() for part in re.split(r";\s*(?:\n|$)", bare) if part.strip())
