"""A second local web: real pages, as published, under many named hosts, and an Ahrefs export of links that really stand
on them. `python -m orchestration.demo.corpus --corpus FOLDER --rows 1200 --folder OUT` writes the files and serves.

Here: what is served, which edges are written down, and what is true of them. Not here: the server (`web.server`).

- Pages are served unchanged at `http://reader-NN.test/<copy>/<page>`, so that links relative to the page lead elsewhere
  than they did; the edges are therefore taken from absolute links to other sites alone.
- Targets are pages of a few domains that several of the pages link to. A page's rows are *all* its links to them, so
  that a crawl discovers nothing else. A share of the rows is stale: the page exists and holds no such link.
- The targets themselves are other people's and must not be contacted by a demo. Their names are mapped to this server,
  which answers 421 (it is not their server) in plain HTTP; an https target therefore fails in TLS. Target health says
  so, and evidence about the links is untouched by it.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import json
import sys
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import trio
from ada_url import URL
from publicsuffixlist import PublicSuffixList
from selectolax.lexbor import LexborHTMLParser

from orchestration.demo.scenario.exports import ahrefs_bytes, ahrefs_row
from orchestration.demo.scenario.model import Host
from orchestration.demo.web import addresses_of
from orchestration.demo.web.pages import HTML, PLAIN, Answer
from orchestration.demo.web.server import Site, Web, encode, run
from transforms.errors import BacklinksError, PermanentError

HOSTS = 64
MIN_PAGES = 4
"""A domain is a target when at least this many pages link to it."""
STALE_EVERY = 12
"""Every such row names a target that its page does not link to."""


class CorpusAbsent(PermanentError):
    """The folder of real pages is not there (a public clone has none)."""


@dataclass(frozen=True)
class CorpusPage:
    name: str
    html: bytes
    links: tuple[tuple[str, str, str], ...]
    """Absolute links to other sites: (URL without fragment, anchor, rel), the first of each URL, in document order."""

    @property
    def title(self) -> str:
        node = LexborHTMLParser(self.html.decode("utf-8", "replace")).css_first("title")
        return " ".join(node.text().split()) if node else ""


@dataclass(frozen=True)
class CorpusEdge:
    page: CorpusPage
    source: str
    target: str
    anchor: str
    rel: str
    is_there: bool


def read_pages(folder: Path) -> list[CorpusPage]:
    """The pages of a corpus folder (`index.json`, `pages/*.html.gz`). Raises `CorpusAbsent`."""
    index = folder / "index.json"
    if not index.is_file():
        raise CorpusAbsent(f"no corpus of pages at {folder} (index.json is absent); name its folder with --corpus.")
    suffixes = PublicSuffixList()
    pages = []
    for row in json.loads(index.read_text()):
        html = gzip.decompress((folder / row["file"]).read_bytes())
        name = Path(row["file"]).name.removesuffix(".html.gz")
        own = suffixes.privatesuffix(URL(row["url"]).hostname) if row["url"] else None
        pages.append(CorpusPage(name, html, tuple(_links(html, own, suffixes))))
    return pages


def _links(html: bytes, own: str | None, suffixes: PublicSuffixList) -> Iterator[tuple[str, str, str]]:
    seen = set()
    for node in LexborHTMLParser(html.decode("utf-8", "replace")).css("a[href]"):
        raw = (node.attributes["href"] or "").strip()
        if not raw.lower().startswith(("http://", "https://")):
            continue
        try:
            url = URL(raw)
        except ValueError:
            continue
        url.hash = ""
        domain = suffixes.privatesuffix(url.hostname)
        if url.href in seen or domain is None or domain == own or url.port or url.username:
            continue
        seen.add(url.href)
        yield url.href, " ".join(node.text().split()), node.attributes.get("rel") or ""


def target_domains(pages: list[CorpusPage]) -> list[str]:
    """Registrable domains that at least `MIN_PAGES` pages link to, most linked first."""
    suffixes = PublicSuffixList()
    linked: dict[str, set[str]] = defaultdict(set)
    for page in pages:
        for url, _, _ in page.links:
            linked[suffixes.privatesuffix(URL(url).hostname) or url].add(page.name)
    chosen = [domain for domain, names in linked.items() if len(names) >= MIN_PAGES]
    return sorted(chosen, key=lambda domain: (-len(linked[domain]), domain))


def corpus_edges(pages: list[CorpusPage], rows: int) -> list[CorpusEdge]:
    """At least `rows` edges (a source's edges are never split): copy after copy of every page that links to a target
    domain, each copy of a page on another host."""
    suffixes = PublicSuffixList()
    domains = set(target_domains(pages))
    wanted = {
        page.name: [link for link in page.links if suffixes.privatesuffix(URL(link[0]).hostname) in domains]
        for page in pages
    }
    everywhere = sorted({link[0] for links in wanted.values() for link in links})
    linking = [page for page in pages if wanted[page.name]]
    edges: list[CorpusEdge] = []
    number = 0
    while len(edges) < rows:
        for page in linking:
            copy, host = divmod(number, HOSTS)
            source = f"http://reader-{host:02}.test/{copy}/{page.name}"
            number += 1
            stale_here: set[str] = set()
            for target, anchor, rel in wanted[page.name]:
                edges.append(CorpusEdge(page, source, target, anchor, rel, True))
                if len(edges) % STALE_EVERY == 0:
                    stale = _not_on(page, everywhere, len(edges), stale_here)
                    stale_here.add(stale)
                    edges.append(CorpusEdge(page, source, stale, "", "", False))
            if len(edges) >= rows:
                return edges
    return edges


def _bare(url: str) -> str:
    return url.partition("://")[2].removeprefix("www.").partition("?")[0].rstrip("/").lower()


def _not_on(page: CorpusPage, everywhere: list[str], start: int, taken: set[str]) -> str:
    """A target that this page links to in no spelling, and that is not among those taken."""
    here = {_bare(url) for url, _, _ in page.links}
    turned = everywhere[start % len(everywhere) :] + everywhere[: start % len(everywhere)]
    return next(url for url in turned if _bare(url) not in here and url not in taken)


def host_names() -> list[str]:
    return [f"reader-{number:02}.test" for number in range(HOSTS)]


def corpus_site(pages: list[CorpusPage]) -> Site:
    """What the server answers: the page behind the last path segment on our hosts, 421 for everybody else's names."""
    bodies = {page.name: page.html for page in pages}
    ours = frozenset(host_names())

    def site(host: str, path: str, window: int) -> Answer:
        if host not in ours:
            return Answer(421, PLAIN, b"This server does not hold that site; it stands in for it in a demo.\n")
        body = bodies.get(path.rpartition("/")[2])
        return Answer(404, PLAIN, b"not found\n") if body is None else Answer(200, HTML, body)

    return site


def write_files(folder: Path, edges: list[CorpusEdge]) -> tuple[Path, Path]:
    """`corpus-ahrefs.csv`, the export, and `corpus-truth.csv`, what is true of its rows (found or not)."""
    folder.mkdir(parents=True, exist_ok=True)
    export, truth = folder / "corpus-ahrefs.csv", folder / "corpus-truth.csv"
    titles = {edge.page.name: edge.page.title for edge in edges}
    export.write_bytes(
        ahrefs_bytes(
            [
                ahrefs_row(edge.source, edge.target, title=titles[edge.page.name], anchor=edge.anchor, rel=edge.rel)
                for edge in edges
            ]
        )
    )
    with truth.open("w", newline="", encoding="utf-8") as output:
        writer = csv.writer(output)
        writer.writerow(("source_url", "target_url", "link_is_there"))
        writer.writerows((edge.source, edge.target, str(edge.is_there).lower()) for edge in edges)
    return export, truth


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m orchestration.demo.corpus")
    parser.add_argument("--corpus", type=Path, default=Path("../shared/corpus"), help="folder of the real pages")
    parser.add_argument("--rows", type=int, default=1200, help="least number of edges")
    parser.add_argument("--folder", type=Path, default=Path(".stack/corpus"), help="where the files go")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--state", type=Path, help="file that receives pid, port and addresses once it answers")
    parser.add_argument("--until-stdin-closes", action="store_true", help="end with the process that started it")
    parser.add_argument("--files-only", action="store_true", help="write the files and serve nothing")
    given = parser.parse_args()
    try:
        pages = read_pages(given.corpus)
        edges = corpus_edges(pages, given.rows)
        export, _ = write_files(given.folder, edges)
        print(f"{len(edges)} edges from {len({edge.source for edge in edges})} pages: {export}", flush=True)
        if given.files_only:
            return 0
        addresses = addresses_of(host_names())
        elsewhere = sorted({URL(edge.target).hostname for edge in edges})
        addresses |= dict.fromkeys(elsewhere, next(iter(addresses.values())))
        for page in pages:
            encode(page.html, "gzip")  # now, so that the log's times are those of the requests
        web = Web(corpus_site(pages), {name: Host(name, name) for name in host_names()}, None)
        state = given.state or given.folder / "web.json"
        try:
            trio.run(lambda: run(web, addresses, given.port, state, until_stdin_closes=given.until_stdin_closes))
        finally:
            state.unlink(missing_ok=True)
    except BacklinksError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
