"""How fast pages are parsed with everything on, and whether the cost is linear in their size.

Run: `python -m tests.bench.parse_bench`. CPU time of one process (`time.process_time`), so that a busy machine disturbs less;
every page is another one on another site, so that the caches help no more than in a crawl. Not a test.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import random
import time
from collections.abc import Callable

from selectolax.lexbor import LexborHTMLParser

from crawl.parse_pool import ParseJob, run_parse_many
from tests.fixtures.chromium import find_corpus
from transforms.html import manifest_tables, parse_page
from transforms.urls import identify_many

_WORDS = "lorem ipsum dolor sit amet consectetur adipiscing elit sed do eiusmod tempor incididunt ut labore".split(" ")  # noqa: SIM905


def page(seed: int, size: int = 60_000, links: int = 100) -> bytes:
    """A page of about `size` bytes: navigation, article paragraphs with outgoing links, image links, a footer."""
    rng = random.Random(seed)

    def words(count: int) -> str:
        return " ".join(rng.choice(_WORDS) for _ in range(count))

    inside = links - 2 * (links // 5)
    filler = max(1, (size - links * 90) // inside // 12 - 10)
    head = (
        f'<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>Page {seed}</title><link rel="canonical" href="https://www.example.com/p/{seed}">'
        '<meta name="robots" content="index,follow"><script>var a=1;</script><style>.a{color:red}</style></head><body><header><nav><ul>'
    )
    parts = [head]
    parts += [
        f'<li class="nav-item"><a href="/section/{at}" class="nav-link">{words(2)}</a></li>' for at in range(links // 5)
    ]
    parts.append('</ul></nav></header><main><article class="post">')
    parts += [
        f'<div class="row"><p>{words(filler)} <a href="https://www.site{seed}-{at % 30}.com/path/page-{at}.html" rel="nofollow noopener">'
        f"{words(2)} <b>{words(1)}</b></a> {words(filler)}</p></div>"
        for at in range(inside)
    ]
    parts.append('</article><aside class="sidebar">')
    parts += [
        f'<div><a href="/tag/{at}?x={at}&amp;y=1"><img src="/i/{at}.png" alt="{words(2)}"></a></div>'
        for at in range(links // 10)
    ]
    parts.append("</aside></main><footer>")
    parts += [f'<a href="https://other{seed}-{at}.org/">{words(1)}</a> | ' for at in range(links // 10)]
    parts.append("</footer></body></html>")
    return "".join(parts).encode()


def cpu(work: Callable[[], object], runs: int = 3) -> float:
    """Least CPU seconds of some runs."""
    best = float("inf")
    for _ in range(runs):
        start = time.process_time()
        work()
        best = min(best, time.process_time() - start)
    return best


def main() -> None:
    pages = [page(seed) for seed in range(200)]
    urls = [f"https://www.site{at}.example/x/y" for at in range(len(pages))]
    mean = sum(map(len, pages)) / len(pages)
    floor = cpu(lambda: [LexborHTMLParser(body) for body in pages])
    full = cpu(
        lambda: [
            parse_page(body, document_url=url, content_type="text/html") for body, url in zip(pages, urls, strict=True)
        ]
    )
    print(f"{len(pages)} pages, mean {mean:,.0f} bytes, 100 links each")
    print(f"  Lexbor alone     {len(pages) / floor:8,.0f} pages/s a core")
    print(f"  everything on    {len(pages) / full:8,.0f} pages/s a core, {full / len(pages) * 1e6:,.0f} us a page")
    parsed = [parse_page(body, document_url=url) for body, url in zip(pages, urls, strict=True)]
    keys = [b"k" * 16] * len(pages)
    hashes = [b"h" * 32] * len(pages)
    table = cpu(lambda: manifest_tables(parsed, range(len(pages)), keys, hashes))
    print(f"  rows to Arrow    {table / len(pages) * 1e6:8,.0f} us a page")
    jobs = [
        ParseJob(at, body, urls[at], hashlib.sha256(body).digest(), "text/html") for at, body in enumerate(pages)
    ] * 3
    run_parse_many(jobs[:2], lambda *_: None)
    start = time.perf_counter()
    run_parse_many(jobs, lambda *_: None)
    print(f"  through the pool {len(jobs) / (time.perf_counter() - start):8,.0f} pages/s, all cores, wall clock")
    print("size       links   us a page   MB/s")
    for factor in (0.25, 1, 4, 16, 64):
        size, links = int(60_000 * factor), int(100 * factor)
        body = page(1, size, links)
        once = cpu(lambda body=body: parse_page(body, document_url="https://e.example/"))  # type: ignore[misc]
        print(f"{len(body):9,} {links:7,} {once * 1e6:11,.0f} {len(body) / once / 1e6:6.0f}")
    corpus = find_corpus()
    if corpus is not None:
        real = [
            gzip.decompress((corpus / one["file"]).read_bytes())
            for one in json.loads((corpus / "index.json").read_text())
        ]
        spent = cpu(lambda: [parse_page(body, document_url="https://e.example/") for body in real])
        print(
            f"corpus: {len(real)} real pages, mean {sum(map(len, real)) / len(real):,.0f} bytes, {len(real) / spent:,.0f} pages/s a core"
        )
    many = [f"https://www.site{at % 50_000}.co.uk/path/{at}/page.html?id={at}" for at in range(200_000)]
    print(f"identify_many: {200_000 / cpu(lambda: identify_many(many), 1):,.0f} URLs/s (50,000 hosts)")


if __name__ == "__main__":
    main()
