"""`backlinks explain SOURCE TARGET`: the chain of evidence of one edge. Here: how the chain is shown. Not here: its links
(the ledger, ClickHouse, the object store)."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from assets.platform import Platform
from orchestration.cli.console import plain_console, visible
from orchestration.settings import Settings
from transforms.errors import BacklinksError, PermanentError


class NoSuchEdge(PermanentError):
    """Nobody monitors a link between these two URLs."""


def explain(
    source: Annotated[str, typer.Argument(help="page that holds, or held, the link", metavar="SOURCE")],
    target: Annotated[str, typer.Argument(help="page that it links to", metavar="TARGET")],
    snippet: Annotated[
        bool, typer.Option("--snippet/--no-snippet", help="show the stored HTML around the link, or where it was")
    ] = True,
) -> None:
    """Every check of a link, oldest first: fetch, snapshot, manifest, evidence, state, event; and the HTML it stands on."""
    from orchestration import resources
    from orchestration.cli.ready import require_stores
    from transforms.urls import identify
    from warehouse import clickhouse
    from warehouse.ledger import lookups

    settings = Settings()
    identities = []
    for written in (source, target):
        found = identify(written)
        if found.identity is None:
            raise NoSuchEdge(f"{written} is no URL of a page ({found.reason}): write it with http:// or https://")
        identities.append(found.identity)
    require_stores(settings)
    console = plain_console()
    platform = resources.platform(settings)
    try:
        edges = lookups.explain(platform.ledger, source=identities[0], target=identities[1])
        if not edges:
            raise NoSuchEdge(
                f"no project monitors a link from {source} to {target}; `backlinks status` lists the projects"
            )
        for edge in edges:
            history = clickhouse.explain_edge(
                platform.clickhouse, edge.edge["project_id"], edge.edge["backlink_id"]
            ).to_pylist()
            console.rule(Text(visible(edge.edge["project"]), "bold"))
            console.print(_verdict(edge.edge))
            console.print(_chain(edge, history) if history else "Not checked yet.")
            through = _redirects(platform, edge.edge["backlink_id"], history)
            if through.row_count:
                console.print(through)
            if edge.alerts.num_rows:
                console.print(_alerts(edge.alerts.to_pylist()))
            if snippet and history:
                _show_snippets(console, platform, history)
    finally:
        platform.close()


def _verdict(edge: dict[str, Any]) -> Table:
    facts = Table(box=None, show_header=False, pad_edge=False)
    facts.add_row("source", edge["source_url"])
    facts.add_row("target", edge["target_url"])
    facts.add_row("state", f"{edge['state']} (version {edge['state_version']})")
    facts.add_row("next check", f"{edge['next_check_at']:%Y-%m-%d %H:%M} UTC")
    if edge["confirm_not_before"]:
        facts.add_row("", f"a first miss waits for confirmation, not before {edge['confirm_not_before']:%H:%M}")
    return facts


def _chain(edge: Any, history: list[dict[str, Any]]) -> Table:
    jobs = {job["job_id"]: job for job in edge.jobs.to_pylist()}
    parses = {parse["manifest_id"]: parse for parse in edge.parses.to_pylist()}
    table = Table("observed", "fetch", "snapshot", "manifest", "evidence", "state after", "event", title="Chain of evidence",
                  title_justify="left")  # fmt: skip
    for row in history:
        job, parse = jobs.get(row["fetch_job_id"]), parses.get(row["manifest_id"])
        fetch = (
            f"{job['outcome'] or job['status']} {job['http_status'] or ''}\n{job['detail'] or ''}".strip()
            if job
            else f"{row['source_http_status'] or ''}"
        )
        manifest = f"{parse['links_found']} links\nparser {row['parser_version']}" if parse else ""
        event = [row["event"].upper()] if row["event"] != "none" else []
        events = "\n".join([*event, *(f"~{change}" for change in row["changes"])])
        state = row["state"] + (f", {row['misses']} miss" if row["misses"] and row["state"] != "lost" else "")
        table.add_row(
            f"{row['observed_at']:%Y-%m-%d %H:%M}", fetch, row["content_hash"].hex()[:12] if row["content_hash"] else "",
            manifest, f"{row['evidence']}\n{row['evidence_reason']}", state, events,
            style={"lost": "red", "recovered": "green"}.get(row["event"]),
        )  # fmt: skip
    return table


def _redirects(platform: Platform, backlink_id: int, history: list[dict[str, Any]]) -> Table:
    """What the source's own redirectors answered, check by check, where the evidence stands on it."""
    from orchestration import redirects
    from transforms.windows import Window

    table = Table("checked", "answer", "redirects", title="Redirectors of the source's own", title_justify="left")
    for row in history:
        if row["evidence_reason"] not in redirects.THROUGH_REDIRECTS:
            continue
        window = Window(row["window_start"], platform.window_length)
        for check in redirects.checks(platform, window, [row["source_url_id"]]):
            if backlink_id in check["edges"] and (check["final_identity"] or backlink_id in check["waiting_edges"]):
                answer = "proven" if check["final_identity"] else check["reason"]
                reused = "\n(still believed)" if check["is_reused"] else ""
                table.add_row(f"{check['checked_at']:%Y-%m-%d %H:%M}{reused}", answer, redirects.chain(check))
    return table


def _alerts(alerts: list[dict[str, Any]]) -> Table:
    table = Table("when", "alert", "rule", "goes to", "status", title="Alerts", title_justify="left")
    for row in alerts:
        where = f"{row['channel']}: {row['destination']}" if row["channel"] else ""
        status = "retracted" if row["retracted_at"] else row["delivery_status"] or row["status"]
        table.add_row(f"{row['occurred_at']:%Y-%m-%d %H:%M}", row["event_type"], row["rule"] or "", where, status)
    return table


def _show_snippets(console: Console, platform: Platform, history: list[dict[str, Any]]) -> None:
    """The HTML of the last snapshot that held the link, and of the newest complete one when that does not."""
    from transforms.html.snippet import snippet

    readable = [row for row in history if row["object_key"] and row["manifest_id"] and row["evidence"] != "none"]
    held = next((row for row in reversed(readable) if row["evidence"] == "found"), None)
    newest = readable[-1] if readable else None
    before = None
    views = (
        [("Where the link stands", held)]
        if held is newest
        else [("Where the link stood", held), ("The same place later", newest)]
    )
    for title, row in views:
        if row is None:
            continue
        try:
            body = platform.snapshots.get(row["object_key"])
        except BacklinksError as error:
            console.print(f"{title}: {error}")
            continue
        shown = snippet(
            body,
            document_url=row["source_final_url"] or row["source_url"],
            target=(held or row)["link_url"] or row["target_url"],
            anchor_text=held["anchor_text"] if held else None,
            before=before,
        )
        before = body
        console.rule(
            f"{title}: {row['source_final_url'] or row['source_url']}, {row['observed_at']:%Y-%m-%d %H:%M}",
            align="left",
        )
        console.print(visible(shown.html) or "nothing on the page is like it")
