"""Which stored manifests may stand for a page again."""

from __future__ import annotations

import polars as pl

from assets.link_manifests import whole_manifests
from transforms.html import manifest_tables, parse_page

BODIES = [
    b"<p>Two links <a href=/a>a</a> <a href=/b>b</a> and a <link rel=canonical href=/c>",
    b"<map><area href=/x alt=x></map><svg><a xlink:href=/s>s</a></svg>",
    b"<p>No link at all",
]


def _tables() -> tuple[pl.DataFrame, pl.DataFrame]:
    parsed = [parse_page(body, document_url="http://a.test/") for body in BODIES]
    ids = [bytes([number]) * 16 for number in range(len(BODIES))]
    pages, links = manifest_tables(parsed, list(range(len(BODIES))), ids, [bytes([n]) * 32 for n in range(len(BODIES))])
    return pl.DataFrame(pl.from_arrow(pages)), pl.DataFrame(pl.from_arrow(links))


def test_manifests_with_all_their_links_are_whole() -> None:
    pages, links = _tables()
    assert sorted(whole_manifests(pages, links)["manifest_id"]) == sorted(pages["manifest_id"])


def test_a_page_row_without_its_link_rows_is_not_reused() -> None:
    """After a kill between the two files: what is left would say of every link that it is absent."""
    pages, links = _tables()
    assert whole_manifests(pages, links.clear())["manifest_id"].to_list() == [bytes([2]) * 16]
    one_short = links.filter(~((pl.col("manifest_id") == bytes(16)) & (pl.col("position") == 0)))
    assert bytes(16) not in whole_manifests(pages, one_short)["manifest_id"].to_list()
