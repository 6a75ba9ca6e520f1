"""What the other stages and the command read back. Here: queries and their schemas. Not here: marts for people.

All results are pyarrow tables. Projects are given as the 16 bytes of their id, as everywhere in the flow.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from datetime import datetime
from importlib import resources
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from clickhouse_connect.driver.client import Client

from transforms.schemas import EDGE_STATES, LINK_OBSERVATIONS, TARGET_HEALTH, Dataset, column
from transforms.schemas.dataset import BOOL, STR, TIME, U8, U16, U64
from transforms.windows import Window
from warehouse.clickhouse.arrow import plain
from warehouse.clickhouse.client import explained, settings_of

BATCH_ROWS = 100_000
"""Least rows of a streamed batch; a batch ends with an edge."""

_IDS_PER_QUERY = 10_000
"""Identifiers in one query text: 10,000 of 20 digits stay below ClickHouse's default `max_query_size` of 256 KiB."""

PROJECT_EDGES = pa.schema([
    column("backlink_id", U64, "backlinks.id"),
    column("source_url_id", U64, "urls.id of the source page"),
    column("source_url", STR, "identity of the source page"),
    column("source_registrable_domain", STR, "registrable domain of the source's host"),
    column("target_url_id", U64, "urls.id of the target page"),
    column("target_url", STR, "identity of the target page"),
    column("state", STR, "unknown | live | lost"),
    column("last_event", STR, "event of the newest observation: none | new | lost | recovered"),
    column("evidence", STR, "newest evidence: found | missing | none"),
    column("evidence_reason", STR, "its reason"),
    column("checked_at", TIME, "when it was observed"),
    column("misses", U8, "consecutive complete misses"),
    column("first_miss_at", TIME, "when the open miss began", null=True),
    column("first_live_at", TIME, "first time it was found", null=True),
    column("last_live_at", TIME, "last time it was found", null=True),
    column("lost_at", TIME, "when it was lost, while it is", null=True),
    column("link_url", STR, "the link as last found, and so the columns below", null=True),
    column("anchor_text", STR, "its anchor", null=True),
    column("is_image_link", BOOL, "its anchor is an image"),
    column("follow", STR, "follow, or where a nofollow comes from", null=True),
    column("rel_nofollow", BOOL, "its rel has nofollow"),
    column("rel_ugc", BOOL, "its rel has ugc"),
    column("rel_sponsored", BOOL, "its rel has sponsored"),
    column("placement", STR, "content | header | footer | sidebar | unknown", null=True),
    column("is_redirected", BOOL, "the link reaches the target only through a checked redirect"),
    column("source_fetch_health", STR, "health of the source at the newest check, and so the columns below"),
    column("source_http_status", U16, "status of the source", null=True),
    column("source_final_url", STR, "URL that answered for the source", null=True),
    column("source_is_redirected", BOOL, "the source redirected"),
    column("source_robots_indexable", BOOL, "the source page may be indexed", null=True),
    column("source_canonical_url", STR, "canonical of the source page", null=True),
    column("target_fetch_health", STR, "health of the target"),
    column("target_http_status", U16, "status of the target", null=True),
    column("target_final_url", STR, "URL that answered for the target", null=True),
    column("target_is_redirected", BOOL, "the target redirected"),
    column("target_robots_indexable", BOOL, "the target page may be indexed", null=True),
    column("page_title", STR, "title of the source page as last found", null=True),
    column("state_version", U64, "as in edge_states"),
])  # fmt: skip

_STATE_AFTER = [
    "state", "event", "changes", "misses", "first_miss_at", "ever_live", "last_live_at", "lost_at", "state_version",
]  # fmt: skip

EDGE_EXPLAINED = pa.schema([*LINK_OBSERVATIONS.schema, *(EDGE_STATES.schema.field(name) for name in _STATE_AFTER)])
"""An observation (all of `LINK_OBSERVATIONS`) and the state of its edge after it."""


def iter_edge_states(client: Client, window: Window, *, batch_rows: int = BATCH_ROWS) -> Iterator[pa.Table]:
    """`EDGE_STATES` of a window in batches of about `batch_rows`; the rows of one edge are never split between batches.

    Sorted by project, edge and time. After dbt's run: a row for each observation of the window, and for each later one
    of the same edges that had to be folded again because of it.
    """
    held = EDGE_STATES.empty()
    for piece in _stream(client, "read edge states", _sql("edge_states"), EDGE_STATES.schema, _span(window)):
        held = pa.concat_tables([held, piece])
        while held.num_rows > batch_rows:
            # before the edge that the batch would end in; an edge longer than a batch is a batch of its own
            cut = _start_of_last_edge(held.slice(0, batch_rows + 1)) or _end_of_first_edge(held)
            if cut == held.num_rows:
                break  # its end may be in the next piece
            yield held.slice(0, cut)
            held = held.slice(cut)
    if held.num_rows:
        yield held


def read_edge_states(client: Client, window: Window) -> pa.Table:
    """All of `iter_edge_states` in one table."""
    return pa.concat_tables([EDGE_STATES.empty(), *iter_edge_states(client, window)])


def read_observations(
    client: Client,
    window: Window | None = None,
    *,
    observation_ids: Sequence[int] | pa.Array | pa.ChunkedArray | None = None,
) -> pa.Table:
    """The counting version of observations (`LINK_OBSERVATIONS`): of a window, by id, or both.

    By id alone all months are searched; give the window too when it is known. Raises `ValueError` without either.
    """
    if window is None and observation_ids is None:
        raise ValueError("read_observations needs a window, observation ids, or both")
    where, parameters = ["1"], {}
    if window is not None:
        where.append("window_start >= {start:DateTime64(6, 'UTC')} AND window_start < {end:DateTime64(6, 'UTC')}")
        parameters = _span(window)
    pieces = [LINK_OBSERVATIONS.empty()]
    for ids in [None] if observation_ids is None else _id_lists(observation_ids):
        condition = " AND ".join([*where, *([f"observation_id IN ({ids})"] if ids else [])])
        sql = (
            f"SELECT {_select_list(LINK_OBSERVATIONS)} FROM ("  # noqa: S608  # names of ours, digits and bound parameters
            f"SELECT * FROM backlink_observations_fact WHERE {condition} "
            "ORDER BY ingest_version DESC LIMIT 1 BY observation_id) ORDER BY project_id, backlink_id, observed_at"
        )
        pieces += _stream(client, "read observations", sql, LINK_OBSERVATIONS.schema, parameters)
    return pa.concat_tables(pieces)


def last_found_before(
    client: Client, backlink_ids: Sequence[int] | pa.Array | pa.ChunkedArray, at: datetime
) -> pa.Table:
    """The newest `found` observation (`LINK_OBSERVATIONS`) of each edge before an instant; without one it is absent."""
    pieces = [LINK_OBSERVATIONS.empty()]
    for ids in _id_lists(backlink_ids):
        sql = _sql("last_found").format(columns=_select_list(LINK_OBSERVATIONS), ids=ids)
        pieces += _stream(client, "read what was found before", sql, LINK_OBSERVATIONS.schema, {"at": at})
    return pa.concat_tables(pieces)


def target_health_as_of(
    client: Client, target_url_ids: Sequence[int] | pa.Array | pa.ChunkedArray, at: datetime
) -> pa.Table:
    """The newest check (`TARGET_HEALTH`) of each target that was decided by `at`; targets never checked are absent."""
    pieces = [TARGET_HEALTH.empty()]
    for ids in _id_lists(target_url_ids):
        sql = (
            f"SELECT {_select_list(TARGET_HEALTH)} FROM ("  # noqa: S608  # names of ours, digits and bound parameters
            f"SELECT * FROM target_health_fact FINAL WHERE target_url_id IN ({ids}) "
            "AND checked_at <= {at:DateTime64(6, 'UTC')} "
            "ORDER BY checked_at DESC, window_start DESC LIMIT 1 BY target_url_id) ORDER BY target_url_id"
        )
        pieces += _stream(client, "read target health", sql, TARGET_HEALTH.schema, {"at": at})
    return pa.concat_tables(pieces)


def explain_edge(client: Client, project_id: bytes, backlink_id: int) -> pa.Table:
    """Everything ever observed of one edge, oldest first, with the state after each observation (`EDGE_EXPLAINED`)."""
    parameters = {"project": str(uuid.UUID(bytes=project_id)), "backlink": backlink_id}
    pieces = _stream(client, "read an edge's history", _sql("explain_edge"), EDGE_EXPLAINED, parameters)
    return pa.concat_tables([EDGE_EXPLAINED.empty_table(), *pieces])


def project_edges(client: Client, project_id: bytes) -> pa.Table:
    """The current state of each edge of a project that was observed at least once (`PROJECT_EDGES`)."""
    parameters = {"project": str(uuid.UUID(bytes=project_id))}
    pieces = _stream(client, "read a project's edges", _sql("project_edges"), PROJECT_EDGES, parameters)
    return pa.concat_tables([PROJECT_EDGES.empty_table(), *pieces])


def _stream(client: Client, doing: str, sql: str, schema: pa.Schema, parameters: dict[str, Any]) -> Iterator[pa.Table]:
    with (
        explained(settings_of(client), doing),
        client.query_arrow_stream(sql, parameters=parameters, use_strings=True) as stream,
    ):
        for batch in stream:
            piece = batch if isinstance(batch, pa.Table) else pa.Table.from_batches([batch])
            if piece.num_rows:
                yield plain(piece, schema)


def _sql(name: str) -> str:
    return resources.files("warehouse.clickhouse").joinpath(f"{name}.sql").read_text()


def _span(window: Window) -> dict[str, Any]:
    return {"start": window.start, "end": window.end}


def _select_list(dataset: Dataset) -> str:
    """The dataset's columns; closed lists as words (Arrow carries an Enum8 as its number)."""
    closed = {"evidence", "source_fetch_health", "target_fetch_health", "health"}
    return ", ".join(f"toString({name}) AS {name}" if name in closed else name for name in dataset.columns)


def _id_lists(ids: Sequence[int] | pa.Array | pa.ChunkedArray) -> Iterator[str]:
    values = ids if isinstance(ids, (pa.Array, pa.ChunkedArray)) else pa.array(ids, U64)
    values = pc.unique(values)
    for offset in range(0, len(values), _IDS_PER_QUERY):
        yield ",".join(map(str, values.slice(offset, _IDS_PER_QUERY).to_pylist()))


def _start_of_last_edge(table: pa.Table) -> int:
    """Index of the first row of the table's last edge."""
    return int(pc.index(_of_same_edge(table, table.num_rows - 1), True).as_py())


def _end_of_first_edge(table: pa.Table) -> int:
    """Index of the first row that is not of the table's first edge; the number of rows when all are."""
    at = int(pc.index(_of_same_edge(table, 0), False).as_py())
    return table.num_rows if at < 0 else at


def _of_same_edge(table: pa.Table, row: int) -> pa.ChunkedArray:
    return pc.and_(
        pc.equal(table["backlink_id"], table["backlink_id"][row]),
        pc.equal(table["project_id"], table["project_id"][row]),
    )
