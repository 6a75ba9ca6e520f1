"""`backlinks url URL`: what a URL is to us. Here: options and printing. Not here: the rules (`transforms.urls`).

`--jsonl FILE|-`: one `{"url", "base"?}` a line in, one result object a line out, same order; a bad line answers
`{"error"}` and the rest goes on.
"""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer

from orchestration.cli.jsonl import LineError, answer_lines, no_lines_besides


def url(
    address: Annotated[str | None, typer.Argument(help="a URL as written somewhere", metavar="URL")] = None,
    base: Annotated[str | None, typer.Option(help="absolute URL that a relative one is resolved against")] = None,
    jsonl: Annotated[
        str | None, typer.Option("--jsonl", help="answer one {url, base?} a line of FILE (- is stdin)", metavar="FILE")
    ] = None,
) -> None:
    """Identity of a URL, registrable domain, and every rule that changed its spelling (exit code 0: has one, 3: refused)."""
    if jsonl is not None:
        no_lines_besides(address, "URL")
        answer_lines(jsonl, lambda request: _answer(request, base), sys.stdout)
        return
    if address is None:
        raise typer.BadParameter("name a URL, or give --jsonl FILE", param_hint="URL")
    answer = _answer({"url": address}, base)
    _show(answer)
    if answer["identity"] is None:
        raise typer.Exit(3)


def _answer(request: dict[str, Any], default_base: str | None) -> dict[str, Any]:
    from transforms.urls import identify

    raw, base = request.get("url"), request.get("base", default_base)
    if not isinstance(raw, str):
        raise LineError("url must be a string")
    if base is not None and not isinstance(base, str):
        raise LineError("base must be a string: an absolute URL")
    found = identify(raw, base)
    return {
        "url": raw,
        "resolved": found.resolved,
        "identity": found.identity,
        "reason": None if found.reason is None else found.reason.value,
        "host": found.host,
        "registrable_domain": found.registrable_domain,
        "public_suffix": found.public_suffix,
        "origin": found.origin,
        "is_ip": found.is_ip,
        "flags": list(found.flags),
        "rules": list(found.rules),
        "url_hash": None if found.hash is None else found.hash.hex(),
    }


def _show(answer: dict[str, Any]) -> None:
    from orchestration.cli.console import plain_console

    console = plain_console()
    for name, value in answer.items():
        text = ", ".join(value) if isinstance(value, list) else value
        console.print(f"  {name:<20}{'-' if text in (None, '') else text}", soft_wrap=True)
