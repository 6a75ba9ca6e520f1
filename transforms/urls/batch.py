"""Identity of many URLs at once. Here: lists in, an Arrow table out. Not here: traces (`identify`)."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from transforms.urls.identity import UrlRefusal, split_resolved, url_hash
from transforms.urls.whatwg import resolve

IDENTITY_COLUMNS = pa.schema(
    [
        pa.field("raw", pa.string()),
        pa.field("resolved", pa.string()),
        pa.field("identity", pa.string()),
        pa.field("url_hash", pa.binary(32)),
        pa.field("reason", pa.string()),
        pa.field("scheme", pa.string()),
        pa.field("host", pa.string()),
        pa.field("port", pa.int32()),
        pa.field("path", pa.string()),
        pa.field("query", pa.string()),
        pa.field("origin", pa.string()),
        pa.field("registrable_domain", pa.string()),
        pa.field("public_suffix", pa.string()),
        pa.field("site", pa.string()),
        pa.field("is_ip", pa.bool_()),
        pa.field("flags", pa.list_(pa.string())),
    ]
)
"""Columns of `identify_many`: the fields of `Identity`, plus `url_hash` (null without an identity) and `site`."""


def identify_many(raws: Sequence[str | None], base: str | None = None) -> pa.Table:
    """One row per input, same order. None and the empty string are `bad_url`. Equal inputs are worked out once."""
    known: dict[str | None, int] = {}
    take: list[int] = []
    rows: list[tuple[object, ...]] = []
    for raw in raws:
        at = known.get(raw)
        if at is None:
            at = known[raw] = len(rows)
            rows.append(_row(raw, base))
        take.append(at)
    columns = list(zip(*rows, strict=True)) or [()] * len(IDENTITY_COLUMNS)
    table = pa.Table.from_arrays(
        [pa.array(values, kind.type) for values, kind in zip(columns, IDENTITY_COLUMNS, strict=True)],
        schema=IDENTITY_COLUMNS,
    )
    return table if len(rows) == len(take) else table.take(pa.array(take, pa.int64()))


def _row(raw: str | None, base: str | None) -> tuple[object, ...]:
    resolved = None if not raw else resolve(raw, base)
    if resolved is None:
        return (raw, None, None, None, UrlRefusal.BAD_URL.value, *(None,) * 9, False, None)
    identity, reason, scheme, host, port, path, query, origin, domain, suffix, is_ip, flags = split_resolved(resolved)
    hashed = None if identity is None else url_hash(identity)
    return (
        raw,
        resolved,
        identity,
        hashed,
        reason,
        scheme,
        host,
        port,
        path,
        query,
        origin,
        domain,
        suffix,
        domain or host,
        is_ip,
        flags,
    )
