"""One import: from a file's first byte to counts in the ledger. Here: the run. Not here: what a row is worth
(`transforms.imports`), how edges are stored (`warehouse.ledger`).

Every batch of rows is registered in transactions of its own and registering again changes nothing, so an import that
was killed is completed by importing the file again: what it had registered comes out as `already_known`. No check
history is touched. Memory is bounded by the batch, plus about 20 bytes an edge to tell duplicates within the file.
"""

from __future__ import annotations

import contextlib
import itertools
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

import polars as pl

from transforms.clock import Clock
from transforms.imports import layout as layouts
from transforms.imports.layout import Layout
from transforms.imports.problems import ImportFileError, RowReason, RowResult, TargetNeeded
from transforms.imports.records import Cells, LineBlock, RecordAssembler
from transforms.imports.rows import REJECT_SCHEMA, Judged, Plan, RowJudge, new_domains
from transforms.targets import Scope, Target, domain_target
from warehouse.imports.reader import LineSource
from warehouse.imports.rejects import RejectsFile
from warehouse.imports.turn import turn
from warehouse.ledger import Ledger, edges, imports, keys, projects
from warehouse.ledger.projects import Project, TargetSpec
from warehouse.ledger.tables import EDGES, IMPORT_ITEMS, URLS

DEFAULT_MAX_TARGETS = 300
"""`tenant_crawl_limits.max_targets_per_project` of a tenant without a row of its own."""

WRITERS = 2
"""Batches that MySQL works on at once."""

ALERT_RULE_NAME = "default"
ALERT_EVENT_TYPES = (
    "backlink.lost",
    "backlink.recovered",
    "backlink.rel_changed",
    "backlink.anchor_changed",
    "backlink.redirect_changed",
    "source.noindex",
    "target.broken",
)
"""What the default rule tells of. Not `backlink.new`: after an import every link is new once."""


@dataclass(frozen=True)
class ImportOptions:
    """What a person asks for besides the file."""

    project: str
    tenant: str = "default"
    targets: tuple[Target, ...] = ()
    format_name: str | None = None
    strict: bool | None = None
    """Whether the project's targets tolerate nothing; None keeps what the project has."""
    interval: timedelta | None = None
    """The project's recheck interval; None keeps what it has (a day for a new one)."""
    due_now: bool = False
    """Check the edges at once instead of spread over the interval."""
    channels: tuple[dict[str, str], ...] = ()
    """Channels of the project's default alert rule; none: the rule is left alone."""
    rejects: Path | None = None
    """Where the rejects file goes (rows that are invalid or repeat an earlier one; all that were not accepted are in the
    ledger, `import_items`); None: none is written."""


@dataclass
class Counts:
    """`rows == accepted + duplicate + invalid`, always."""

    rows: int = 0
    accepted: int = 0
    duplicate: int = 0
    invalid: int = 0
    blank_lines: int = 0
    """Lines without any cell; they are no rows."""
    assumed_https: int = 0
    """Cells without a scheme that were read as https."""
    reasons: Counter[str] = field(default_factory=Counter)

    @property
    def already_known(self) -> int:
        """Of the duplicates: links that the project had before. They are no rejects."""
        return self.reasons[RowReason.ALREADY_KNOWN.value]

    @property
    def rejects(self) -> int:
        """Rows in the rejects file: invalid ones, and those that repeat an earlier row of the file."""
        return self.duplicate + self.invalid - self.already_known


@dataclass
class ImportReport:
    """How an import ended."""

    project: Project
    import_run_id: bytes
    layout: Layout
    encoding: str
    gzip: bool
    targets: tuple[Target, ...]
    """All targets of the project now."""
    counts: Counts
    seconds: float
    rejects: Path | None
    damage: str | None
    """Why the file ended before its end; rows up to there are imported and the run is `partial`."""


@dataclass(frozen=True)
class Progress:
    """Handed out after each batch."""

    bytes_read: int
    bytes_total: int
    counts: Counts


def import_file(
    ledger: Ledger,
    path: Path,
    options: ImportOptions,
    *,
    clock: Clock,
    progress: Callable[[Progress], None] = lambda _: None,
    on_wait: Callable[[], None] = lambda: None,
) -> ImportReport:
    """Import a file into a project (made when it is not there).

    Raises `ImportFileError` (nothing was written) when the file cannot be read as a table or list of links, holds no
    row, or names no target while the caller names none either (`TargetNeeded`); ledger errors as they come: the run
    then says `failed` or `partial`, and importing again completes it. Imports into one project take turns: `on_wait` is
    called when this one has to wait for another.
    """
    started = time.monotonic()
    with LineSource(path) as source:
        layout = layouts.detect(list(source.opened.head), str(path), format_name=options.format_name)
        batches = read_cells(source, layout)
        first = next((cells for cells in batches if len(cells)), None)
        if first is None:
            what = "headings but not one row" if layout.headings else "not one row"
            raise ImportFileError(f"{path} has {what}: nothing to import.")
        tenant_id = keys.tenant_id(options.tenant)
        known = _known_targets(ledger, tenant_id, options.project)
        if layout.target is None and not options.targets and not known:
            named = f"; its headings are {layouts.shown_headings(layout.headings)}" if layout.headings else ""
            raise TargetNeeded(
                f"{path} ({layout.label}) has no column for the page that is linked to{named}: "
                "say what the links point at with --target example.com or --target https://example.com/page."
            )
        with _Rejects(options.rejects) as rejects:
            project = projects.ensure_project(
                ledger,
                tenant_id=tenant_id,
                name=options.project,
                now=clock.now(),
                recrawl_interval=options.interval,
                is_strict=options.strict,
            )
            with turn(ledger, project.id, on_wait=on_wait):
                known = _known_targets(ledger, tenant_id, options.project)
                run = _Run(ledger, path, options, layout, project, known, clock)
                try:
                    for rejected in run.batches(itertools.chain([first], batches)):
                        rejects.write(rejected.filter(pl.col("reason") != RowReason.ALREADY_KNOWN.value))
                        progress(Progress(source.position, source.opened.size, run.counts))
                    rejects.flush()
                    run.finish(source.damage)
                except BaseException as error:
                    run.abandon(error)
                    raise
        return ImportReport(
            project,
            run.id,
            layout,
            source.opened.encoding.label,
            source.opened.gzip,
            tuple(run.targets),
            run.counts,
            time.monotonic() - started,
            options.rejects,
            source.damage,
        )


def read_cells(source: LineSource, layout: Layout) -> Iterator[Cells]:
    """A file's rows as cells, a batch per block of lines."""
    assembler, next_line = RecordAssembler(layout), 1
    for block in source.blocks():
        yield assembler.feed(block)
        next_line = block.first_line + len(block.lines)
    yield assembler.feed(LineBlock(next_line, []), last=True)


def _known_targets(ledger: Ledger, tenant_id: bytes, name: str) -> list[Target]:
    project = projects.find_project(ledger, tenant_id=tenant_id, name=name)
    if project is None:
        return []
    with ledger.transaction() as tx:
        primary = tx.row(
            "SELECT id FROM project_targets WHERE project_id = %(id)s AND is_primary = TRUE AND deleted_at IS NULL",
            {"id": project.id},
        )
    # The primary target comes first: it stands for the project where a file names no targets.
    rules = projects.target_rules(ledger, [project.id]).to_pylist()
    rules.sort(key=lambda row: primary is None or row["project_target_id"] != primary[0])
    return [
        Target(
            Scope(row["scope"]),
            row["registrable_domain"] if row["scope"] == Scope.DOMAIN else row["host"],
            row["registrable_domain"],
            row["url"],
            row["include_subdomains"],
            row["is_strict"],
        )
        for row in rules
    ]


_CLOSE_KILLED = """
UPDATE import_runs SET status = 'failed', error = 'killed before its end', completed_at = %(now)s
WHERE project_id = %(id)s AND status = 'running' AND provider_connection_id IS NULL
"""


class _Run:
    """The ledger's side of one import."""

    def __init__(
        self,
        ledger: Ledger,
        path: Path,
        options: ImportOptions,
        layout: Layout,
        project: Project,
        known: list[Target],
        clock: Clock,
    ) -> None:
        self._ledger, self._layout, self._clock, self._due_now = ledger, layout, clock, options.due_now
        self.project = project
        self.counts = Counts()
        now = clock.now()
        strict = self.project.is_strict
        wanted = [
            Target(t.scope, t.host, t.registrable_domain, t.url, t.include_subdomains, strict)
            for t in (*options.targets, *known)
        ]
        self.targets = list({target.target_key: target for target in wanted}.values())
        self._register_targets(list(options.targets), first=not known)
        if options.channels:
            projects.add_alert_rule(
                ledger,
                self.project.id,
                name=ALERT_RULE_NAME,
                event_types=ALERT_EVENT_TYPES,
                channels=options.channels,
                now=now,
            )
        self._judge = RowJudge(
            Plan(
                tuple(self.targets),
                open_scope=not options.targets and layout.target is not None,
                has_target_column=layout.target is not None,
                max_targets=_max_targets(ledger, project.tenant_id),
                rules=ledger.rules,
            )
        )
        # Whoever holds the turn knows that no other import of the project is alive.
        ledger.run(lambda tx: tx.execute(_CLOSE_KILLED, {"id": project.id, "now": now}))
        self.id = imports.start_run(
            ledger,
            self.project.id,
            provider=layout.provider.value,
            file_name=path.name.encode("utf-8", "replace").decode(),
            file_format=layout.label,
            now=now,
        )

    def batches(self, batches: Iterable[Cells]) -> Iterator[pl.DataFrame]:
        """Register batches; yields, in file order, each one's rows that were not accepted (`REJECT_SCHEMA`).

        While MySQL works on `WRITERS` batches the next one is read and judged here: the edges of a file are told apart
        before they are handed over, so no two writers ever hold the same one.
        """
        with ThreadPoolExecutor(WRITERS, thread_name_prefix="import") as pool:
            pending: deque[tuple[Cells, Judged, Future[pl.DataFrame]]] = deque()
            try:
                for cells in batches:
                    judged = self._judge.judge(cells)
                    self._add_domains(judged)
                    pending.append((cells, judged, pool.submit(self._write, judged)))
                    while pending and (len(pending) > WRITERS or pending[0][2].done()):
                        yield self._written(*pending.popleft())
                while pending:
                    yield self._written(*pending.popleft())
            finally:
                for _, _, future in pending:
                    future.cancel()

    def _add_domains(self, judged: Judged) -> None:
        """In an open scope: what the file links to becomes the project's targets."""
        fresh = new_domains(judged.edges, self.targets)
        if fresh:
            added = [domain_target(site) for site in fresh]
            self._register_targets(added, first=not self.targets)
            self.targets += added

    def _write(self, judged: Judged) -> pl.DataFrame:
        """A writer's work: edges and rejected rows into the ledger. Returns all rows that were not accepted."""
        registered = self._register(judged.edges)
        known = (
            judged.edges.hstack(registered)
            .filter(~pl.col("is_new"))
            .with_columns(
                result=pl.lit(RowResult.DUPLICATE.value),
                reason=pl.lit(RowReason.ALREADY_KNOWN.value),
                detail=pl.lit("the project had this link before"),
            )
        )
        rejected = pl.concat(
            [
                judged.rejected.with_columns(backlink_id=pl.lit(None, pl.UInt64)),
                known.select(*REJECT_SCHEMA, "backlink_id"),
            ]
        ).sort("line")
        items = rejected.select(
            pl.col("line").alias("line_number"),
            "result",
            "reason",
            pl.col("source").alias("raw_source"),
            pl.col("target").alias("raw_target"),
            "backlink_id",
        )
        imports.record_items(self._ledger, self.id, IMPORT_ITEMS.conform(items.to_arrow()))
        return rejected

    def _written(self, cells: Cells, judged: Judged, future: Future[pl.DataFrame]) -> pl.DataFrame:
        """Wait for a batch and count it."""
        rejected = future.result()
        counts = self.counts
        by_result = dict(rejected.group_by("result").len().iter_rows())
        counts.rows += len(cells)
        counts.accepted += len(cells) - rejected.height
        counts.duplicate += by_result.get(RowResult.DUPLICATE.value, 0)
        counts.invalid += by_result.get(RowResult.INVALID.value, 0)
        counts.blank_lines += cells.blank_lines
        counts.assumed_https += judged.assumed_https
        counts.reasons.update(dict(rejected.group_by("reason").len().iter_rows()))
        assert len(cells) == judged.rows, "a row was dropped"
        return rejected

    def finish(self, error: str | None) -> None:
        """Close the run: `completed`, or with an error `partial` or `failed`."""
        counts = self.counts
        imports.finish_run(
            self._ledger, self.id, received=counts.rows, accepted=counts.accepted, duplicate=counts.duplicate,
            invalid=counts.invalid, error=error, now=self._clock.now(),
        )  # fmt: skip

    def abandon(self, error: BaseException) -> None:
        """Say in the ledger that the run did not come to its end, if the ledger can still be told."""
        # The first error is the one to show.
        with contextlib.suppress(Exception):
            self.finish(f"stopped after {self.counts.rows} rows: {error or type(error).__name__}")

    def _register(self, found: pl.DataFrame) -> pl.DataFrame:
        """Register edges; `backlink_id` and `is_new`, a row per edge."""
        if not found.height:
            return pl.DataFrame(schema={"backlink_id": pl.UInt64, "is_new": pl.Boolean})
        ends = pl.concat([_urls(found, "source"), _urls(found, "target")]).unique(
            "url_hash", keep="first", maintain_order=True
        )
        registered = edges.register_urls(self._ledger, URLS.conform(ends.to_arrow()))
        ids = pl.DataFrame(
            {"url_hash": pl.from_arrow(registered["url_hash"]), "url_id": pl.from_arrow(registered["url_id"])}
        )
        rows = found.select(
            pl.lit(self.project.id).alias("project_id"), "source_url_hash", "target_url_hash", "any_target"
        )
        for end in ("source", "target"):
            these = ids.rename({"url_hash": f"{end}_url_hash", "url_id": f"{end}_url_id"})
            rows = rows.join(these, on=f"{end}_url_hash", how="left", maintain_order="left")
        provider = None if self._layout.discovery_source == "manual" else self._layout.provider.value
        answer = edges.register_edges(
            self._ledger, EDGES.conform(rows.to_arrow()), source=self._layout.discovery_source, provider=provider,
            now=self._clock.now(), due_now=self._due_now,
        )  # fmt: skip
        return pl.DataFrame(pl.from_arrow(answer)).select("backlink_id", "is_new")

    def _register_targets(self, added: Sequence[Target], *, first: bool) -> None:
        specs = [
            TargetSpec(
                target.scope.value, target.landing_url, target.include_subdomains, is_primary=first and position == 0
            )
            for position, target in enumerate(added)
        ]
        if specs:
            projects.add_targets(self._ledger, self.project.id, specs, now=self._clock.now())


def _urls(found: pl.DataFrame, end: str) -> pl.DataFrame:
    return found.select(
        pl.col(f"{end}_identity").alias("url"),
        pl.col(f"{end}_url_hash").alias("url_hash"),
        pl.col(f"{end}_host").alias("host"),
        pl.col(f"{end}_site").alias("registrable_domain"),
        pl.col(f"{end}_public_suffix").alias("public_suffix"),
    )


def _max_targets(ledger: Ledger, tenant_id: bytes) -> int:
    with ledger.transaction() as tx:
        row = tx.row(
            "SELECT max_targets_per_project FROM tenant_crawl_limits WHERE tenant_id = %(tenant_id)s",
            {"tenant_id": tenant_id},
        )
    return DEFAULT_MAX_TARGETS if row is None else int(row[0])


class _Rejects:
    """A rejects file, or none."""

    def __init__(self, path: Path | None) -> None:
        self._file = None if path is None else RejectsFile(path)

    def __enter__(self) -> _Rejects:
        if self._file is not None:
            self._file.__enter__()
        return self

    def write(self, rows: pl.DataFrame) -> None:
        if self._file is not None:
            self._file.write(rows)

    def flush(self) -> None:
        if self._file is not None:
            self._file.flush()

    def __exit__(self, *error: object) -> None:
        if self._file is not None:
            self._file.__exit__(*error)  # type: ignore[arg-type]
