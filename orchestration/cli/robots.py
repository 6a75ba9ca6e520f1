"""`backlinks robots URL`: may an agent fetch it, by which line, and why. Here: options and printing. Not here: RFC 9309
(`crawl.robots`).

`--jsonl FILE|-`: one `{"robots", "agent"?, "url"}` a line in, one `{"allowed", "rule", "reason"}` a line out, in the
same order; a bad line answers `{"error"}` and the rest goes on.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text

from crawl.egress import Refused
from crawl.robots import MAX_ROBOTS_BYTES, RulesCache, Verdict, parse_robots
from crawl.runner import fetch_robots
from orchestration.cli.console import plain_console
from orchestration.cli.jsonl import LineError, answer_lines, no_lines_besides
from orchestration.cli.light import LightSettings
from transforms.errors import PermanentError


def robots(
    url: Annotated[str | None, typer.Argument(help="absolute URL, or a path with its query", metavar="URL")] = None,
    file: Annotated[Path | None, typer.Option(help="a robots.txt to read instead of the site's own")] = None,
    agent: Annotated[str | None, typer.Option(help="product token (default: our own)")] = None,
    jsonl: Annotated[
        str | None,
        typer.Option("--jsonl", help="judge one {robots, agent, url} a line of FILE (- is stdin)", metavar="FILE"),
    ] = None,
) -> None:
    """Whether robots.txt lets an agent fetch a URL, and which rule says so (exit code 0: yes, 3: no)."""
    settings = LightSettings()
    own_agent = agent or settings.crawl.user_agent_product
    if jsonl is not None:
        no_lines_besides(url, "URL")
        rules = RulesCache(own_agent)  # neighbouring lines often ask about one file; files have a limit together
        answer_lines(jsonl, lambda request: _judge_line(request, rules), sys.stdout)
        return
    if url is None:
        raise typer.BadParameter("name a URL, or give --jsonl FILE", param_hint="URL")
    if file is not None:
        try:
            with file.open("rb") as opened:
                body = opened.read(MAX_ROBOTS_BYTES + 1)  # one more says that there is more
            verdict = parse_robots(body, own_agent).judge(url)
        except OSError as e:
            raise PermanentError(f"{file} cannot be read: {e.strerror}.") from None
        source = str(file)
    else:
        settings.crawl.user_agent_product = own_agent
        try:
            state = fetch_robots(url, settings=settings.crawl, clock=settings.clock)
        except Refused as e:
            raise PermanentError(f"{url} may not be contacted ({e.reason.value}): {e.detail}") from None
        verdict = state.judge(url)
        source = f"{state.record.origin}/robots.txt, {state.record.status_class}, version {state.record.version}"
    console = plain_console()
    console.print(Text("allowed", "green") if verdict.allowed else Text("denied", "red"), f" {url}", soft_wrap=True)
    console.print(f"  agent   {own_agent}", soft_wrap=True)
    console.print(f"  rule    {verdict.rule or '-'}", soft_wrap=True)
    console.print(f"  reason  {verdict.reason}", soft_wrap=True)
    console.print(f"  source  {source}", soft_wrap=True)
    if not verdict.allowed:
        raise typer.Exit(3)


def _judge_line(request: dict[str, Any], rules: RulesCache) -> dict[str, Any]:
    text, url, agent = request.get("robots"), request.get("url"), request.get("agent")
    if not isinstance(text, str):
        raise LineError("robots must be a string: the text of a robots.txt")
    if not isinstance(url, str):
        raise LineError("url must be a string")
    if "agent" in request and not isinstance(agent, str):
        raise LineError("agent must be a string: a product token")
    verdict: Verdict = rules.of(text.encode("utf-8", "surrogatepass"), agent).judge(url)
    return {"allowed": verdict.allowed, "rule": verdict.rule, "reason": verdict.reason}
