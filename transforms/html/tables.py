"""Parsed pages as Arrow tables of the manifest schemas. Here: rows → columns. Not here: parsing, Parquet."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from transforms.html.links import LINK_COLUMNS
from transforms.html.page import PARSER_VERSION, ParsedPage
from transforms.reasons import Reason
from transforms.schemas import LINK_MANIFESTS, PAGE_MANIFESTS


def failed_page(document_url: str, body_bytes: int, reason: Reason) -> ParsedPage:
    """The outcome of a page that could not be parsed (`PARSE_TIMEOUT`, `PARSE_FAILED`): no links, nothing proven."""
    return ParsedPage(
        {
            "document_url": document_url,
            "base_url": document_url,
            "parser_version": PARSER_VERSION,
            "reason": reason.value,
            "charset": "",
            "charset_method": "fallback",
            "robots_directives": [],
            "robots_indexable": True,
            "meta_nofollow": False,
            "header_nofollow": False,
            "canonical_html": [],
            "canonical_header": [],
            "canonical_issues": [],
            "is_truncated": True,
            "truncated_by": "time" if reason is Reason.PARSE_TIMEOUT else None,
            "parse_quality": "partial",
            "text_ratio": 0.0,
            "text_bytes": 0,
            "link_count": 0,
            "is_script_shell": False,
            "body_bytes": body_bytes,
        }
    )


def manifest_tables(
    pages: Sequence[ParsedPage],
    source_url_ids: Sequence[int],
    manifest_ids: Sequence[bytes],
    content_hashes: Sequence[bytes],
) -> tuple[pa.Table, pa.Table]:
    """`PAGE_MANIFESTS` and `LINK_MANIFESTS` rows of pages, in the order given (pages by position, links by position within)."""
    page_columns: list[pa.Array] = []
    own: dict[str, Sequence[Any]] = {
        "source_url_id": source_url_ids,
        "manifest_id": manifest_ids,
        "content_hash": content_hashes,
    }
    for kind in PAGE_MANIFESTS.schema:
        values = own[kind.name] if kind.name in own else [page.page.get(kind.name) for page in pages]
        page_columns.append(pa.array(values, kind.type))
    counts = [len(page.links.rows) for page in pages]
    columns = list(zip(*(row for page in pages for row in page.links.rows), strict=True)) or [()] * len(LINK_COLUMNS)
    by_name: dict[str, Sequence[Any]] = dict(zip(LINK_COLUMNS, columns, strict=True))
    by_name["source_url_id"] = [one for one, count in zip(source_url_ids, counts, strict=True) for _ in range(count)]
    by_name["manifest_id"] = [one for one, count in zip(manifest_ids, counts, strict=True) for _ in range(count)]
    link_columns = [pa.array(by_name[kind.name], kind.type) for kind in LINK_MANIFESTS.schema]
    return (
        pa.Table.from_arrays(page_columns, schema=PAGE_MANIFESTS.schema),
        pa.Table.from_arrays(link_columns, schema=LINK_MANIFESTS.schema),
    )
