"""JSON lines in, JSON lines out: the filter mode of several commands. Here: reading, order, bad lines. Not here: the
answers."""

from __future__ import annotations

import json
import os
import select
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from io import UnsupportedOperation
from math import isfinite
from pathlib import Path
from typing import Any, BinaryIO, TextIO

import typer

from transforms.errors import PermanentError


class LineError(ValueError):
    """A line that cannot be answered; the message is the sentence that its answer carries."""


Request = dict[str, Any] | LineError
"""The object on a line, or the error that stands for it."""


def no_lines_besides(argument: object, name: str) -> None:
    """With `--jsonl`, an argument of its own would be ignored: it is refused. Raises a usage error."""
    if argument is not None:
        raise typer.BadParameter(f"{argument} or --jsonl FILE, not both", param_hint=name)


def read_lines(source: str) -> Iterator[Request]:
    """One request for each line of a file (`-`: stdin): as many as lines."""
    with _opened(source) as file:
        yield from _requests(file)


def read_rounds(source: str, most: int) -> Iterator[list[Request]]:
    """The same for what is best answered together: all lines that are there now, about `most` of them at once. Whoever
    writes one line and waits for its answer gets it; whoever has a million is read as fast as answers are made."""
    with _opened(source) as file:
        try:
            descriptor = file.fileno()
        except UnsupportedOperation:  # not a real file
            yield list(_requests(file))
            return
        lines: list[bytes] = []
        number = 1
        for arrived in _arriving(descriptor):
            lines += arrived
            if len(lines) >= most or not select.select([descriptor], [], [], 0)[0]:
                yield list(_requests(lines, number))
                number += len(lines)
                lines = []
        if lines:
            yield list(_requests(lines, number))


@contextmanager
def _opened(source: str) -> Iterator[BinaryIO]:
    if source == "-":
        if sys.stdin is None:
            raise PermanentError("stdin is closed.")
        yield sys.stdin.buffer
        return
    with ExitStack() as stack:
        try:
            file = stack.enter_context(Path(source).open("rb"))
        except OSError as e:
            raise PermanentError(f"{source} cannot be read: {e.strerror}.") from None
        yield file


def _arriving(descriptor: int) -> Iterator[list[bytes]]:
    """Whole lines as they arrive, none held back in a buffer; at the end what stands behind the last newline."""
    rest: list[bytes] = []
    while data := os.read(descriptor, 1 << 16):
        first, *more = data.split(b"\n")
        rest.append(first)
        if more:
            *whole, last = more
            yield [b"".join(rest), *whole]
            rest = [last]
    if any(rest):
        yield [b"".join(rest)]


def _requests(lines: Iterable[bytes], first: int = 1) -> Iterator[Request]:
    for number, raw in enumerate(lines, first):
        if not raw.strip():
            yield LineError(f"line {number} is empty")
            continue
        try:
            request = json.loads(raw.decode("utf-8-sig"), parse_constant=_no_json, parse_float=_number)
        except (ValueError, RecursionError) as e:
            yield LineError(f"line {number} is not JSON: {e}")
            continue
        yield request if isinstance(request, dict) else LineError(f"line {number} is not a JSON object")


def _no_json(constant: str) -> None:
    """NaN and Infinity, which Python would take (RFC 8259 §6 has no such numbers) and would write back."""
    raise ValueError(f"{constant} is no JSON value")


def _number(text: str) -> float:
    """A number that a double can hold (RFC 8259 §6 lets a reader say so): 1e999 would be written back as Infinity."""
    number = float(text)
    if not isfinite(number):
        raise ValueError(f"{text[:40]} is out of range")
    return number


def write_line(answer: dict[str, Any], out: TextIO) -> None:
    """Write an answer so that whoever asked has it now: he may wait for it before he asks the next (a pipe is buffered)."""
    line = json.dumps(answer, ensure_ascii=True) + "\n"
    if out is None:
        raise PermanentError("stdout is closed.")
    try:
        out.write(line)
        out.flush()
    except BrokenPipeError:
        raise  # nobody listens any more: no error of ours
    except OSError as e:
        _drop_unwritten(out)
        raise PermanentError(f"the answers cannot be written: {e.strerror}.") from None


def _drop_unwritten(out: TextIO) -> None:
    """What could not be written would be tried again at exit and end in a traceback."""
    with suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, out.fileno())
        os.close(nowhere)


def answer_lines(source: str, answer: Callable[[dict[str, Any]], dict[str, Any]], out: TextIO) -> None:
    """Answer each line as it comes, in order; a bad one with `{"error"}`."""
    for request in read_lines(source):
        if isinstance(request, LineError):
            write_line({"error": str(request)}, out)
            continue
        try:
            write_line(answer(request), out)
        except LineError as e:
            write_line({"error": str(e)}, out)
