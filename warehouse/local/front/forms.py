"""multipart/form-data bodies (RFC 7578), as clients send large parameters and external tables. Not here: their meaning.

A form is held whole: its size is bounded by the caller.
"""

from __future__ import annotations

import re
from dataclasses import dataclass


class BadForm(Exception):
    """The body is not the form that its Content-Type says."""


@dataclass(frozen=True)
class Part:
    name: str
    content: bytes


def parts(body: bytes, content_type: str) -> list[Part]:
    """The parts of a form in their order. Raises `BadForm`."""
    boundary = re.search(r'boundary=(?:"([^"]{1,70})"|([^\s;"]{1,70}))', content_type, re.IGNORECASE)
    if boundary is None:
        raise BadForm("its Content-Type names no boundary")
    pieces = (b"\r\n" + body).split(b"\r\n--" + (boundary[1] or boundary[2]).encode("latin-1"))
    found: list[Part] = []
    for piece in pieces[1:]:
        if piece.startswith(b"--"):
            return found
        head, separator, content = piece.partition(b"\r\n\r\n")
        name = re.search(rb';\s*name="((?:[^"\\]|\\.)*)"', head)
        if not separator or name is None:
            raise BadForm("a part has no head or no name")
        found.append(Part(_unescaped(name[1]), content))
    raise BadForm("it ends before its last boundary")


def _unescaped(name: bytes) -> str:
    """Browsers percent-encode a quote and line ends within a name (RFC 7578 §2), older clients use backslashes."""
    text = re.sub(r"\\(.)", r"\1", name.decode("utf-8", "replace"))
    return text.replace("%22", '"').replace("%0D", "\r").replace("%0A", "\n")
