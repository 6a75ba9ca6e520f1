"""Real pages under many names: served as published, and the edges written down are true of them."""

from __future__ import annotations

import csv
import http.client
import io
import re
from collections import Counter
from pathlib import Path

import pytest

from orchestration.demo import corpus
from orchestration.demo.web import ScriptedWeb

pytestmark = pytest.mark.service

FOLDER = Path(__file__).resolve().parents[4] / "shared" / "corpus"
needs_corpus = pytest.mark.skipif(not FOLDER.exists(), reason="the corpus of real pages is not here")


@pytest.fixture(scope="module")
def pages() -> list[corpus.CorpusPage]:
    return corpus.read_pages(FOLDER)


@pytest.fixture(scope="module")
def edges(pages: list[corpus.CorpusPage]) -> list[corpus.CorpusEdge]:
    return corpus.corpus_edges(pages, 1200)


def test_an_absent_corpus_is_named(tmp_path: Path) -> None:
    with pytest.raises(corpus.CorpusAbsent, match=r"no corpus of pages at .*--corpus"):
        corpus.read_pages(tmp_path)


@needs_corpus
def test_targets_are_what_many_pages_link_to(pages: list[corpus.CorpusPage]) -> None:
    domains = corpus.target_domains(pages)
    assert domains[:3] == ["twitter.com", "facebook.com", "google.com"]
    assert len(domains) == 10


@needs_corpus
def test_edges_are_true_of_their_pages(edges: list[corpus.CorpusEdge]) -> None:
    assert len(edges) >= 1200
    assert len({(edge.source, edge.target) for edge in edges}) == len(edges)
    assert len({edge.source.split("/")[2] for edge in edges}) >= 60
    assert 60 < Counter(edge.is_there for edge in edges)[False] < 120
    for edge in edges:
        # The bytes themselves, with nothing parsed: the part of the target that no encoding touches.
        bare = re.sub(r"^https?://(www\.)?", "", edge.target).partition("?")[0].partition("%")[0].rstrip("/")
        there = bare.lower() in edge.page.html.decode("utf-8", "replace").replace("&amp;", "&").lower()
        assert there or not edge.is_there, edge
        if not edge.is_there:
            assert edge.target not in {url for url, _, _ in edge.page.links}


@needs_corpus
def test_files(edges: list[corpus.CorpusEdge], tmp_path: Path) -> None:
    export, truth = corpus.write_files(tmp_path, edges)
    text = export.read_bytes().decode("utf-16")
    rows = list(csv.DictReader(io.StringIO(text, newline=""), delimiter="\t"))
    told = list(csv.DictReader(io.StringIO(truth.read_text(encoding="utf-8"))))
    assert [(row["Referring page URL"], row["Target URL"]) for row in rows] == [
        (row["source_url"], row["target_url"]) for row in told
    ]
    assert Counter(row["link_is_there"] for row in told)["true"] > 1100


@needs_corpus
def test_served_as_published(edges: list[corpus.CorpusEdge], tmp_path: Path) -> None:
    web = ScriptedWeb.start(
        tmp_path,
        module="orchestration.demo.corpus",
        arguments=("--corpus", str(FOLDER), "--folder", str(tmp_path), "--rows", "100"),
    )
    try:
        source = edges[0]
        host, _, path = source.source.removeprefix("http://").partition("/")
        connection = http.client.HTTPConnection(web.addresses[host], web.port, timeout=10)
        connection.request("GET", f"/{path}", headers={"Host": host})
        response = connection.getresponse()
        assert (response.status, response.read()) == (200, source.page.html)
        connection.request("GET", "/", headers={"Host": "twitter.com"})
        assert connection.getresponse().status == 421
        connection.close()
        assert set(corpus.host_names()) < set(web.test_hosts())
        assert {address.split(".")[0] for address in web.test_hosts().values()} == {"127"}
    finally:
        web.stop()
