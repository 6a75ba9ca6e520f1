"""SHA-256 over rows. Here: the keys of observations and the hash of their evidence, the bytes of both. Not here: which
columns an observation has (`observations`).

`idempotency_key` is SHA-256 of `<crawl_run_id, hex>:<source_url_id>:<target_url_id>`; its first 64 bits, big-endian, are
the `observation_id`.

`evidence_hash` is a tree. What an observation says falls into four parts, and rows share them: many edges have one source
page or one target. So the text of a part is hashed once for all rows that share it, and a row's hash is SHA-256 of
`observation_id` (8 bytes, big-endian) and the 32-byte hashes of its source, answer, target and rules, in this order.
The text of a part is its name, then its columns joined by commas, made so that no two different parts have the same one:
- Numbers in decimal, times in microseconds, bytes in hex, a text with its length in bytes and a colon before it, a list
  in brackets with spaces between, null as `-`.
- Last, all true-or-false columns as one number, two bits each from the lowest: 0 false, 1 true, 2 null.
It depends on nothing but the row: not on the order of rows, the slice, or the machine.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from transforms.arrays import encoded
from transforms.schemas import LINK_OBSERVATIONS

Digests = npt.NDArray[np.void]
"""One 32-byte SHA-256 per row."""
Rows = npt.NDArray[np.int32] | npt.NDArray[np.uint32]

BLOCK = 4096
"""Rows that are hashed in one go: what is made for them stays in the cache."""

_DIGEST = np.dtype("V32")


def part_digests(part: str, rows: pl.DataFrame, columns: list[str]) -> Digests:
    """The hash of each row as a part of evidence; `columns` are those of `LINK_OBSERVATIONS` that count."""
    fields = [LINK_OBSERVATIONS.schema.field(name) for name in columns]
    flags = [field for field in fields if pa.types.is_boolean(field.type)]
    texts = [pl.lit(part), *(_text(field) for field in fields if field not in flags)]
    if flags:
        bits = pl.sum_horizontal(
            pl.col(field.name).cast(pl.UInt32).fill_null(2) * (1 << 2 * place) for place, field in enumerate(flags)
        )
        texts.append(bits.cast(pl.String))
    return np.frombuffer(b"".join(_digests(rows.select(pl.concat_str(*texts, separator=",")).to_series())), _DIGEST)


def sha256_of(texts: pl.Series) -> pl.Series:
    """SHA-256 of each string, as 32-byte binaries."""
    return pl.Series(_digests(texts), dtype=pl.Binary)


def _digests(texts: pl.Series) -> list[bytes]:
    sha = hashlib.sha256
    return [sha(text).digest() for text in texts.cast(pl.Binary).to_list()]


def idempotency_keys(run_ids: pa.ChunkedArray, source_ids: pa.ChunkedArray, target_ids: pa.ChunkedArray) -> Digests:
    """Keys of the observations of these edges."""
    runs = encoded(run_ids)
    hexed = pa.array([run.hex() for run in runs.dictionary.to_pylist()], pa.string())
    numbers = [ids.combine_chunks().cast(pa.string()) for ids in (source_ids, target_ids)]
    lines = pc.binary_join_element_wise(hexed.take(runs.indices), *numbers, ":")
    return _of_lines(lines)


def _of_lines(lines: pa.StringArray) -> Digests:
    """SHA-256 of each text; none of them holds a newline. A block is cut as one buffer: no object of Arrow's per row."""
    sha = hashlib.sha256
    digests = []
    for start in range(0, len(lines), BLOCK):
        block = lines.slice(start, BLOCK)
        (joined,) = pc.binary_join(pa.ListArray.from_arrays([0, len(block)], block), "\n")
        digests.append(b"".join([sha(text).digest() for text in joined.as_buffer().to_pybytes().split(b"\n")]))
    return np.frombuffer(b"".join(digests), _DIGEST)


def row_digests(keys: Digests, parts: Iterable[tuple[Digests, Rows]]) -> Digests:
    """`evidence_hash` of each row, from its key and its parts: the hashes of a part and which of them is each row's."""
    sha = hashlib.sha256
    columns = [(f"part{place}", digests, rows) for place, (digests, rows) in enumerate(parts)]
    ids = keys.view([("id", "V8"), ("rest", "V24")])["id"]
    block = np.empty(BLOCK, [("id", "V8"), *((name, _DIGEST) for name, _, _ in columns)])
    hashes = []
    for start in range(0, len(keys), BLOCK):
        filled = block[: len(keys) - start]
        filled["id"] = ids[start : start + BLOCK]
        for name, digests, rows in columns:
            filled[name] = digests[rows[start : start + BLOCK]]
        texts = struct.iter_unpack(f"{block.itemsize}s", filled.view(np.uint8).data)
        hashes.append(b"".join([sha(text).digest() for (text,) in texts]))
    return np.frombuffer(b"".join(hashes), _DIGEST)


def observation_ids(keys: Digests) -> npt.NDArray[np.uint64]:
    """The first 64 bits of each key, as a number."""
    return keys.view(">u8").reshape(-1, 4)[:, 0].astype(np.uint64)


def as_column(digests: Digests) -> pa.FixedSizeBinaryArray:
    """As an Arrow column, without a copy."""
    return pa.FixedSizeBinaryArray.from_buffers(pa.binary(32), len(digests), [None, pa.py_buffer(digests)])


def _text(field: pa.Field) -> pl.Expr:
    value = pl.col(field.name)
    kind = field.type
    if pa.types.is_string(kind):
        text = pl.concat_str(value.str.len_bytes().cast(pl.String), pl.lit(":"), value)
    elif pa.types.is_fixed_size_binary(kind):
        text = value.bin.encode("hex")
    elif pa.types.is_timestamp(kind):
        text = value.dt.epoch("us").cast(pl.String)
    elif pa.types.is_list(kind):
        hexed = pa.types.is_fixed_size_binary(kind.value_type)
        items = value.list.eval(pl.element().bin.encode("hex")) if hexed else value
        text = pl.lit("[") + items.list.join(" ") + pl.lit("]")
    else:
        text = value.cast(pl.String)
    return text.fill_null("-") if field.nullable else text
