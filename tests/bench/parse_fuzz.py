"""Hostile bytes for the parser, in worker processes: nothing but an outcome may ever come of them.

Run: `python -m tests.bench.parse_fuzz [--seconds 600] [--seed N]`. Mutates the written oddities and, where it is there, the
corpus: cuts, splices, flipped bits, repeated pieces, deep nesting, random encodings. Prints counts by reason; exits 1 when a page
was lost, or when a worker died otherwise than by its CPU limit.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import random
import sys
import time
from collections import Counter
from collections.abc import Iterator

import pyarrow as pa

from crawl.parse_pool import ParseJob, run_parse_many
from tests.fixtures.chromium import find_corpus
from tests.service.html.oddities import ODDITIES
from transforms.html import ParseLimits
from transforms.html.charset.labels import NAME_OF

_PIECES = [
    b"<a href=", b"<", b">", b"</a>", b"\0", b"<svg>", b"<math>", b"<table>", b"<template>", b"<select>", b"'", b'"', b"&#x110000;",
    b"<!--", b"-->", b"<![CDATA[", b"<base href=", b"<meta charset=", b"<plaintext>", b"<frameset>", b"\xff\xfe", b"\xef\xbb\xbf",
    b"<script><!--<script>", b"</script>", b"<form>", b"<a hidden style='display:none'>", b"<nobr>", b"<b><i><u><font>", b"\x1b$B",
    b"href=http://[::", b"xn--", b"%", b"<link rel=canonical href=", b"<meta name=robots content='unavailable_after: 31 Feb,", b"=", b" a a=",  # noqa: E501
]  # fmt: skip
_LABELS = sorted(NAME_OF)


def hostile(rng: random.Random, seeds: list[bytes]) -> bytes:
    body = bytearray(rng.choice(seeds))
    for _ in range(rng.randrange(1, 8)):
        at = rng.randrange(len(body) + 1)
        kind = rng.randrange(7)
        if kind == 0:
            body[at:at] = rng.choice(_PIECES) * rng.choice((1, 1, 2, 50))
        elif kind == 1:
            del body[at : at + rng.randrange(1, 400)]
        elif kind == 2:
            other = rng.choice(seeds)
            cut = rng.randrange(len(other) + 1)
            body[at:at] = other[cut : cut + rng.randrange(2_000)]
        elif kind == 3 and body:
            for _ in range(rng.randrange(1, 60)):
                body[rng.randrange(len(body))] = rng.randrange(256)
        elif kind == 4:
            body[at:at] = body[at : at + rng.randrange(300)] * rng.randrange(1, 200)
        elif kind == 5:
            body[at:at] = b"".join(rng.choice(_PIECES) for _ in range(rng.randrange(200)))
        else:
            body[at:at] = rng.randbytes(rng.randrange(500))
    if rng.random() < 0.01:
        body[0:0] = rng.choice((b"<div>", b"<b>", b"<a x=", b"<table><tr><td>", b"<svg>")) * rng.choice((5_000, 60_000))
    return bytes(body)


def fuzz(seconds: float, seed: int, workers: int | None = None) -> Counter[str]:
    """Parses hostile pages for some seconds; returns how many came back with which reason. Raises when one did not."""
    rng = random.Random(seed)
    seeds = [body for body, _ in ODDITIES.values()]
    corpus = find_corpus()
    if corpus is not None:
        seeds += [gzip.decompress(path.read_bytes())[:200_000] for path in sorted(corpus.glob("pages/*.gz"))]
    reasons: Counter[str] = Counter()
    sent = 0
    stop = time.monotonic() + seconds

    def jobs() -> Iterator[ParseJob]:
        nonlocal sent
        while time.monotonic() < stop:
            body = hostile(rng, seeds)
            content_type = rng.choice((None, "text/html", f"text/html; charset={rng.choice(_LABELS)}"))
            link = (hostile(rng, [b"</x>; rel=\"canonical\"; title*=UTF-8''%e2"]).decode("latin-1"),)
            sent += 1
            yield ParseJob(
                sent, body, "https://e.example/a/b?c", hashlib.sha256(body).digest(), content_type, link, link, link[0]
            )

    def emit(pages: pa.Table, links: pa.Table) -> None:
        pages.validate(full=True)
        links.validate(full=True)
        reasons.update(pages["reason"].to_pylist())

    run_parse_many(jobs(), emit, workers=workers, limits=ParseLimits())
    if sum(reasons.values()) != sent:
        raise AssertionError(f"{sent} pages sent, {sum(reasons.values())} came back")
    return reasons


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--seed", type=int, default=time.time_ns())
    parser.add_argument("--workers", type=int, default=None)
    options = parser.parse_args()
    print(f"seed {options.seed}")
    reasons = fuzz(options.seconds, options.seed, options.workers)
    for reason, count in reasons.most_common():
        print(f"{count:10,} {reason}")
    return 1 if reasons["parse_failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
