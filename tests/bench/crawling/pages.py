"""The pages that every contender fetches. Here: their bytes, deterministic. Not here: serving them."""

from __future__ import annotations

import random

MIX = ((12_000, 45), (60_000, 45), (250_000, 10))
"""(bytes, share in percent)."""
SIXTY = ((60_000, 100),)
SMALL = ((2_000, 100),)
KINDS = {"mix": MIX, "sixty": SIXTY, "small": SMALL}
VARIANTS = 20


def make_pages(kind: str = "mix") -> list[bytes]:
    """20 pages of a kind (`KINDS`); about a link every 320 bytes, as on real pages."""
    rng = random.Random(7)
    words = [f"word{n:03d}" for n in range(400)]
    sizes = [size for size, share in KINDS[kind] for _ in range(share * VARIANTS // 100)]
    pages = []
    for number, size in enumerate(sizes):
        parts = [f"<!doctype html><html lang=en><head><title>Page {number}</title></head><body><main>"]
        length = len(parts[0])
        while length < size:
            text = " ".join(rng.choices(words, k=30))
            link = f'<a href="/page/{rng.randrange(9999)}" rel="{rng.choice(["", "nofollow"])}">{rng.choice(words)}</a>'
            part = f'<p class="c{rng.randrange(9)}">{text} {link}</p>\n'
            parts.append(part)
            length += len(part)
        pages.append(("".join(parts) + "</main></body></html>").encode())
    return pages


def page_of(number: int) -> tuple[int, bool]:
    """Which variant a URL's number is, and whether it is sent as gzip."""
    return (number * 7919) % VARIANTS, number % 2 == 0


def address_of(host: int) -> str:
    """Loopback address of a host: each has its own."""
    return f"127.1.{host // 250}.{host % 250 + 1}"
