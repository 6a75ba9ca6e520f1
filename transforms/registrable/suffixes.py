"""The public suffix list as a value. Here: look-up. Not here: refreshing the list (operations do)."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

from publicsuffixlist import PSLFILE, PublicSuffixList

from transforms.errors import PermanentError

LIST_VARIABLE = "BACKLINKS_PUBLIC_SUFFIX_LIST"
"""Environment variable naming a file in the list's published format, instead of the one that is shipped."""

_LEAST_RULES = 1_000
"""The real list has about 10,000 rules; a file with fewer than this is a truncated download or an error page."""


class BadSuffixList(PermanentError):
    """A replacement list that cannot be read, or that is plainly not the public suffix list."""


class Registrable(NamedTuple):
    """What the list says of one host (ASCII, lower case, no trailing dot)."""

    domain: str | None
    """The registrable domain (eTLD+1); None for a host that is itself a public suffix, such as `com` or `github.io`."""
    suffix: str | None
    """The public suffix. For an unknown top-level domain the list's default rule `*` applies: its last label."""


class SuffixList:
    """An immutable list. Source: https://publicsuffix.org/list/ (algorithm: the same page, "Formal Algorithm")."""

    def __init__(self, text: str) -> None:
        self.version = next(
            (line.split("VERSION:", 1)[1].strip() for line in text.splitlines()[:40] if "VERSION:" in line), "unknown"
        )
        self._rules = _Rules(text).rules

    @classmethod
    def from_file(cls, path: str | Path) -> SuffixList:
        """Reads a list. Raises `BadSuffixList` when the file is missing, not UTF-8 or far too short to be the list."""
        try:
            text = Path(path).read_text("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise BadSuffixList(
                f"public suffix list {path}: cannot be read ({error}); unset {LIST_VARIABLE} or name another file"
            ) from error
        rules = sum(1 for line in text.splitlines() if line and not line.startswith("//"))
        if rules < _LEAST_RULES:
            raise BadSuffixList(
                f"public suffix list {path}: only {rules} rules, expected {_LEAST_RULES} or more; fetch it again"
            )
        return cls(text)

    def look_up(self, host: str) -> Registrable:
        """Longest matching rule first, which is what the list's algorithm comes to; below a microsecond."""
        rules = self._rules
        tail = host
        while True:
            rest = tail.partition(".")[2]
            if f"!{tail}" in rules:
                suffix = rest
                break
            # A name with a wildcard rule below it (`*.ck`) is a suffix itself, as the package has it.
            if tail in rules or not rest or f"*.{rest}" in rules or f"*.{tail}" in rules:
                suffix = tail
                break
            tail = rest
        if suffix == host:
            return Registrable(None, suffix)
        return Registrable(f"{host[: -len(suffix) - 1].rpartition('.')[2]}.{suffix}", suffix)


class _Rules(PublicSuffixList):
    """The package parses the list (IDN rules in both spellings) and answers well; a look-up of its own is ten times slower."""

    @property
    def rules(self) -> frozenset[str]:
        return self._publicsuffix


_current: SuffixList | None = None


def suffixes() -> SuffixList:
    """The list in use: what `use_suffixes` set, else the file that the environment names, else the shipped one."""
    global _current  # one list per process; replaced whole, never mutated
    if _current is None:
        _current = SuffixList.from_file(os.environ.get(LIST_VARIABLE) or PSLFILE)
    return _current


def use_suffixes(replacement: SuffixList | None) -> None:
    """Replaces the list of this process; None goes back to the default."""
    global _current
    _current = replacement


def registrable(host: str) -> Registrable:
    """Registrable domain and public suffix of a DNS host name (not an IP address)."""
    return suffixes().look_up(host)
