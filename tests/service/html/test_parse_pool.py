"""Parsing in processes that can be killed. Real processes; the bombs are real ones."""

from __future__ import annotations

import hashlib

import pyarrow as pa

from crawl.parse_pool import ParseJob, parse_one, run_parse_many
from transforms.html import ParseLimits
from transforms.schemas import LINK_MANIFESTS, PAGE_MANIFESTS

LIMITS = ParseLimits(cpu_s=0.5)
ATTRIBUTE_BOMB = b"<a href=x " + b" ".join(b"a%d" % n for n in range(60_000)) + b">"


def job(key: int, body: bytes, **more: object) -> ParseJob:
    return ParseJob(key, body, f"https://site{key}.example/", hashlib.sha256(body).digest(), "text/html", **more)  # type: ignore[arg-type]


def run(jobs: list[ParseJob]) -> tuple[pa.Table, pa.Table, object]:
    parts: list[tuple[pa.Table, pa.Table]] = []
    counts = run_parse_many(iter(jobs), lambda *tables: parts.append(tables), workers=2, limits=LIMITS)
    pages = pa.concat_tables([page for page, _ in parts]).sort_by("source_url_id")
    links = pa.concat_tables([link for _, link in parts]).sort_by(
        [("source_url_id", "ascending"), ("position", "ascending")]
    )
    return pages, links, counts


def test_a_bomb_becomes_an_outcome_and_the_batch_goes_on() -> None:
    jobs = [job(key, b"<a href=/%d>link</a>" % key) for key in range(150)]
    jobs[20] = job(20, ATTRIBUTE_BOMB)
    jobs[21] = job(21, ATTRIBUTE_BOMB)
    pages, links, counts = run(jobs)
    assert pages.schema.equals(PAGE_MANIFESTS.schema)
    assert links.schema.equals(LINK_MANIFESTS.schema)
    assert pages["source_url_id"].to_pylist() == list(range(150))
    reasons = pages["reason"].to_pylist()
    assert [key for key, reason in enumerate(reasons) if reason != "ok"] == [20, 21]
    assert reasons[20] == reasons[21] == "parse_timeout"
    assert pages["is_truncated"].to_pylist()[20] is True
    assert links["source_url_id"].to_pylist() == [key for key in range(150) if key not in (20, 21)]
    assert counts.killed == 2  # type: ignore[attr-defined]
    assert counts.reasons == {"ok": 148, "parse_timeout": 2}  # type: ignore[attr-defined]


def test_nothing_to_do() -> None:
    counts = run_parse_many([], lambda *_: None)
    assert counts.pages == 0


def test_one_page_and_its_headers() -> None:
    parsed = parse_one(
        job(1, b"<a href=x>x</a>", x_robots_tag=("noindex",), link_header=("<https://c.example/>;rel=canonical",))
    )
    assert parsed.page["robots_indexable"] is False
    assert parsed.page["canonical_header"] == ["https://c.example/"]
    assert parsed.links.dicts()[0]["resolved"] == "https://site1.example/x"
    assert parse_one(job(2, ATTRIBUTE_BOMB), limits=LIMITS).page["reason"] == "parse_timeout"
