"""`backlinks parse FILE --url BASE`: what a page says. Here: options and printing. Not here: parsing (`transforms.html`).

`--jsonl FILE|-`: one `{"html_path", "url", "headers"?}` a line in, one `{"page", "links"}` a line out, same order; a bad line
answers `{"error"}` and the rest goes on. `html_path` is relative to the working directory. `headers` is an object (a value
may be a list, for a header that came several times) or a list of pairs. Each page is parsed in a worker process that is
killed after 2 s of CPU: that, too, is an answer (`reason`: `parse_timeout`).
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from orchestration.cli.jsonl import LineError, answer_lines, no_lines_besides
from transforms.errors import PermanentError


def parse(
    file: Annotated[str | None, typer.Argument(help="an HTML file; - is stdin", metavar="FILE")] = None,
    url: Annotated[str | None, typer.Option(help="absolute URL that the file was fetched from")] = None,
    header: Annotated[
        list[str] | None, typer.Option(help="a response header, 'Name: value'; may be repeated", metavar="'K: V'")
    ] = None,
    jsonl: Annotated[
        str | None,
        typer.Option(
            "--jsonl", help="answer one {html_path, url, headers?} a line of FILE (- is stdin)", metavar="FILE"
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="print the result object instead of tables")] = False,
) -> None:
    """The page row and the links of an HTML file, as a browser with scripts off finds them."""
    headers = [_split_header(one) for one in header or []]
    if jsonl is not None:
        no_lines_besides(file, "FILE")
        answer_lines(jsonl, lambda request: _answer_line(request, url, headers), sys.stdout)
        return
    if file is None:
        raise typer.BadParameter("name a file (- is stdin), or give --jsonl FILE", param_hint="FILE")
    if url is None:
        raise typer.BadParameter("say where the page comes from: --url https://...", param_hint="--url")
    try:
        body = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
    except OSError as error:
        raise PermanentError(f"{file} cannot be read: {error.strerror}.") from None
    try:
        answer = _parse(body, url, headers)
    except LineError as error:
        raise PermanentError(f"{error}.") from None
    if as_json:
        import json

        is_unicode = (sys.stdout.encoding or "").lower().replace("-", "").startswith("utf")
        print(json.dumps(answer, ensure_ascii=not is_unicode, indent=1))
    else:
        _show(answer)


def _split_header(text: str) -> tuple[str, str]:
    name, colon, value = text.partition(":")
    if not colon or not name.strip():
        raise typer.BadParameter(f"{text!r} is not 'Name: value'", param_hint="--header")
    return name.strip(), value.strip()


def _answer_line(request: dict[str, Any], default_url: str | None, extra: list[tuple[str, str]]) -> dict[str, Any]:
    path, url = request.get("html_path"), request.get("url", default_url)
    if not isinstance(path, str):
        raise LineError("html_path must be a string: a file to read")
    if not isinstance(url, str):
        raise LineError("url must be a string: where the page comes from")
    try:
        body = _read_page(Path(path))
    except (OSError, ValueError) as error:
        raise LineError(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}") from None
    return _parse(body, url, [*extra, *_header_pairs(request.get("headers"))])


def _read_page(path: Path) -> bytes:
    """A file's bytes, no more than are parsed and one (which marks it truncated). A device or a pipe, which may never end,
    is refused: among many lines it would keep all others waiting."""
    from transforms.html.limits import ParseLimits

    if not path.is_file():
        path.stat()  # says what is wrong where there is nothing at all
        raise ValueError("it is not a regular file")
    with path.open("rb") as file:
        return file.read(ParseLimits().max_bytes + 1)


def _header_pairs(headers: object) -> list[tuple[str, str]]:
    if headers is None:
        return []
    items: list[Any] = (
        list(headers.items()) if isinstance(headers, dict) else headers if isinstance(headers, list) else [None]
    )
    pairs: list[tuple[str, str]] = []
    for item in items:
        if not (isinstance(item, list | tuple) and len(item) == 2 and isinstance(item[0], str)):
            raise LineError("headers must be an object of strings (or lists of strings), or a list of pairs")
        for value in item[1] if isinstance(item[1], list) else [item[1]]:
            if not isinstance(value, str):
                raise LineError(f"header {item[0]} must be a string or a list of strings")
            pairs.append((item[0], value))
    return pairs


def _parse(body: bytes, url: str, headers: list[tuple[str, str]]) -> dict[str, Any]:
    import hashlib

    from crawl.parse_pool import ParseJob, parse_one
    from transforms.urls import resolve

    if resolve(url) is None:
        raise LineError(f"url {url!r} is not an absolute URL")
    by_name: dict[str, list[str]] = {}
    for name, value in headers:
        by_name.setdefault(name.strip().lower(), []).append(value)
    job = ParseJob(
        0,
        body,
        url,
        hashlib.sha256(body).digest(),
        content_type=", ".join(by_name["content-type"]) if "content-type" in by_name else None,
        x_robots_tag=tuple(by_name.get("x-robots-tag", ())),
        link_header=tuple(by_name.get("link", ())),
        refresh_header=by_name.get("refresh", [None])[0],
    )
    parsed = parse_one(job)
    page = dict(parsed.page)
    page["robots"] = page["robots_directives"]
    page["canonicals"] = [*page["canonical_header"], *page["canonical_html"]]
    first = (
        "title",
        "language",
        "charset",
        "charset_method",
        "base_url",
        "canonicals",
        "robots",
        "is_truncated",
        "parse_quality",
    )
    ordered = {name: page.get(name) for name in first} | {
        name: value for name, value in page.items() if name not in first
    }
    return {"page": ordered, "links": [_link(row) for row in parsed.links.dicts()]}


def _link(row: dict[str, Any]) -> dict[str, Any]:
    return {
        name: value.hex() if isinstance(value, bytes) else list(value) if isinstance(value, tuple) else value
        for name, value in row.items()
    }


def _show(answer: dict[str, Any]) -> None:
    from rich.table import Table

    from orchestration.cli.console import plain_console

    console = plain_console()
    for name, value in answer["page"].items():
        text = ", ".join(map(str, value)) if isinstance(value, list) else value
        console.print(f"  {name:<20}{'-' if text in (None, '') else text}", soft_wrap=True)
    table = Table(show_lines=False)
    for heading in ("#", "kind", "URL", "anchor", "rel", "follow", "placement"):
        table.add_column(heading, overflow="fold")
    for link in answer["links"]:
        target = link["identity"] or link["resolved"] or f"{link['raw_href']} ({link['refusal']})"
        anchor = f"[image] {link['anchor_text']}" if link["is_image"] else link["anchor_text"]
        where = f"{link['placement']}, hidden" if link["is_hidden"] else link["placement"]
        table.add_row(
            str(link["position"]),
            link["kind"],
            target,
            anchor,
            " ".join(link["rel"]),
            link["follow"],
            where,
        )
    console.print(table)
