"""Just enough of ClickHouse's lexical grammar to tell a statement's kind, its format and where inline data begins.

Works on bytes, because what follows the head of an INSERT is data of any kind. Not here: parsing; the engine does that,
and every mistake that it can report is left to it.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass

# One alternative per kind of token of ClickHouse's lexer (src/Parsers/Lexer.cpp). An unterminated string or comment
# matches none but `other`, and the engine then says what is wrong with it.
_TOKEN = re.compile(
    rb"""
      (?P<space>   \s+ | --[^\n]* (?:\n|\Z) | \#[!\ ][^\n]* (?:\n|\Z) | /\*.*?\*/ )
    | (?P<heredoc> \$(?P<tag>\w*)\$ .*? \$(?P=tag)\$ )
    | (?P<text>    '(?:[^'\\]|\\.|'')*' )
    | (?P<quoted>  "(?:[^"\\]|\\.|"")*" | `(?:[^`\\]|\\.|``)*` )
    | (?P<word>    [A-Za-z_][A-Za-z0-9_$]* )
    | (?P<number>  [0-9][A-Za-z0-9_.]* )
    | (?P<other>   . )
    """,
    re.VERBOSE | re.DOTALL,
)


@dataclass(frozen=True)
class Token:
    kind: str
    text: bytes
    start: int
    end: int
    depth: int  # of parentheses, brackets and braces around it

    @property
    def word(self) -> str:
        """Upper-case spelling of a bare word; empty for every other kind."""
        return self.text.decode("ascii").upper() if self.kind == "word" else ""


def tokens(sql: bytes) -> Iterator[Token]:
    """Every token but white space and comments."""
    depth = 0
    for match in _TOKEN.finditer(sql):
        kind = match.lastgroup or "other"
        if kind == "tag":
            kind = "heredoc"
        if kind == "space":
            continue
        text = match.group()
        if kind == "other" and text in b")]}":
            depth = max(0, depth - 1)
        yield Token(kind, text, match.start(), match.end(), depth)
        if kind == "other" and text in b"([{":
            depth += 1


@dataclass(frozen=True)
class Insert:
    """The head of an INSERT with inline data: `statement` (without FORMAT or VALUES), its format, where data begins."""

    statement: bytes
    format: str
    data_at: int


class MoreNeeded(Exception):
    """The text ends before it is known what the statement is."""


def insert_head(sql: bytes, *, complete: bool) -> Insert | None:
    """The head of an INSERT whose data follows inline; None if `sql` is anything else (also INSERT … SELECT).

    `complete` says whether `sql` is the whole request; if it is not and the answer may still change, `MoreNeeded`.
    """
    stream = tokens(sql)
    first = next(stream, None)
    if first is None or (first.end == len(sql) and not complete):
        if complete:
            return None
        raise MoreNeeded
    if first.word != "INSERT":
        return None
    previous = first
    for token in stream:
        if token.end == len(sql) and not complete:
            raise MoreNeeded  # the word may go on in the next piece
        if token.depth == 0:
            if token.word in ("SELECT", "WITH", "FROM") and previous.word != "INTO":
                return None
            if token.word == "VALUES" and previous.word not in ("INTO", "TABLE", "FORMAT"):
                return Insert(sql[: token.start].rstrip(), "Values", token.end)
            if previous.word == "FORMAT" and token.kind == "word":
                return Insert(sql[: previous.start].rstrip(), token.text.decode("ascii"), _after_format(sql, token.end))
        previous = token
    if complete:
        return None
    raise MoreNeeded


def _after_format(sql: bytes, at: int) -> int:
    """Data begins after blanks and at most one line end (src/Parsers/ParserInsertQuery.cpp): what follows is data."""
    while sql[at : at + 1] in (b" ", b"\t", b"\f"):
        at += 1
    if sql[at : at + 1] == b"\r":
        at += 1
    return at + 1 if sql[at : at + 1] == b"\n" else at


@dataclass(frozen=True)
class Statement:
    """What is known of a statement without data. `format_at` is where a FORMAT clause stands or would have to stand."""

    first: str
    format: str | None
    format_at: int
    end: int
    into_outfile: bool
    several: bool
    kill: bool
    calls: frozenset[str]  # lower-case names of everything that is called like a function

    @property
    def streams(self) -> bool:
        """True for a query whose result may be large."""
        return self.first in ("SELECT", "WITH", "FROM", "(", "VALUES")


def statement(sql: bytes) -> Statement:
    found = list(tokens(sql))
    several = any(t.text == b";" and t.depth == 0 for t in _without_trailing_semicolons(found))
    found = _without_trailing_semicolons(found)
    end = found[-1].end if found else 0
    format_name, format_at = None, end
    words = [t.word for t in found]
    for i in range(len(found) - 1, 0, -1):
        if found[i].depth == 0 and words[i - 1] == "FORMAT" and found[i].kind == "word" and i >= 2:
            rest = words[i + 1 : i + 2]
            if not rest or rest[0] == "SETTINGS":
                format_name, format_at = found[i].text.decode("ascii"), found[i - 1].start
            break
    pairs = list(itertools.pairwise(found))
    return Statement(
        first=(words[0] or found[0].text.decode("utf-8", "replace")) if found else "",
        format=format_name,
        format_at=format_at,
        end=end,
        into_outfile=any(a.word == "INTO" and b.word == "OUTFILE" for a, b in pairs),
        several=several,
        kill=words[:2] == ["KILL", "QUERY"],
        calls=frozenset(
            a.text.decode("utf-8", "replace").strip('"`').lower()
            for a, b in pairs
            if b.text == b"(" and a.kind in ("word", "quoted")
        ),
    )


def _without_trailing_semicolons(found: list[Token]) -> list[Token]:
    end = len(found)
    while end and found[end - 1].text == b";":
        end -= 1
    return found[:end]


def literal(value: str) -> str:
    """A ClickHouse string literal."""
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"


def quoted(name: str) -> str:
    """A ClickHouse identifier."""
    return "`" + name.replace("\\", "\\\\").replace("`", "\\`") + "`"
