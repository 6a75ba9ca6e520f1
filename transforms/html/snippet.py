"""The stored HTML around a link, or where it used to be, for people. Here: finding the place and cutting a readable piece.

Not here: loading bodies, printing.
"""

from __future__ import annotations

from typing import NamedTuple

from selectolax.lexbor import LexborHTMLParser, LexborNode

from transforms.html.charset import query_encoder
from transforms.html.limits import ParseLimits, cut
from transforms.html.page import base_of, read_markup
from transforms.html.resolver import Resolver
from transforms.html.text import fold

_WORDS = 6


class Snippet(NamedTuple):
    found: bool
    """The link is there."""
    place: str
    """link | neighbourhood (the text that stood around it) | locator (the element it stood in) | nowhere"""
    html: str
    """At most about `2 * radius` characters more than the link itself; `…` marks what was cut. Empty: nowhere."""


class _Document:
    def __init__(self, body: bytes, document_url: str, content_type: str | None) -> None:
        body, _ = cut(body, ParseLimits())
        markup, charset, _ = read_markup(body, content_type)
        self.tree = LexborHTMLParser(markup)
        encode = query_encoder(charset.name)
        document = Resolver(document_url, encode)
        elements = [(node, node.tag or "", node.attributes) for node in self.tree.css("base")]
        self.resolver = Resolver(base_of(elements, document), encode)

    def link(self, target: str, anchor_text: str | None) -> LexborNode | None:
        """The first link to an identity; among several, one whose text is the given one."""
        first = None
        for node in self.tree.css("a[href],area[href]"):
            if self.resolver(node.attributes.get("href") or "").identity == target:
                if anchor_text is None or fold(node.text()) == anchor_text:
                    return node
                first = first or node
        return first


def snippet(
    body: bytes,
    *,
    document_url: str,
    target: str,
    content_type: str | None = None,
    anchor_text: str | None = None,
    locator: str | None = None,
    before: bytes | None = None,
    before_content_type: str | None = None,
    radius: int = 240,
) -> Snippet:
    """The HTML around the link to `target` (a URL identity) on a page.

    When it is gone, the place where it used to be: the element that holds the words which stood around it in `before` (the
    earlier body), else the nearest element that `locator` (of the earlier manifest row) still finds.
    """
    page = _Document(body, document_url, content_type)
    node = page.link(target, anchor_text)
    if node is not None:
        return Snippet(True, "link", _around(node, radius))
    if before is not None:
        earlier = _Document(before, document_url, before_content_type or content_type)
        old = earlier.link(target, anchor_text)
        if old is not None:
            holder = _holder_of(page.tree, _neighbours(old))
            if holder is not None:
                return Snippet(False, "neighbourhood", _crop(holder.html or "", 0, radius * 2))
    if locator:
        element = _by_locator(page.tree, locator)
        if element is not None:
            return Snippet(False, "locator", _crop(element.html or "", 0, radius * 2))
    return Snippet(False, "nowhere", "")


def _around(node: LexborNode, radius: int) -> str:
    """The link within its nearest ancestor that is larger than the radius, cut on both sides."""
    own = node.html or ""
    marker, outer = own, node
    while outer.parent is not None and outer.parent.tag not in ("html", "-document", None):
        outer = outer.parent
        marker = outer.html or ""
        if len(marker) > len(own) + 2 * radius:
            break
    before = ""
    walker = node
    while walker.mem_id != outer.mem_id:  # text of everything in front of the link, level by level
        parent = walker.parent
        if parent is None:
            break
        sibling = walker.prev
        pieces: list[str] = []
        while sibling is not None and sum(len(piece) for piece in pieces) < radius:
            pieces.append(sibling.html or "")
            sibling = sibling.prev
        opening = (parent.html or "").partition(">")[0] + ">"
        before = opening + "".join(reversed(pieces)) + before
        walker = parent
    at = marker.find(own, max(0, min(len(before), len(marker)) - len(own)))
    if at < 0:
        at = max(0, marker.find(own))
    start, end = max(0, at - radius), min(len(marker), at + len(own) + radius)
    return ("…" if start else "") + marker[start:end] + ("…" if end < len(marker) else "")


def _crop(text: str, start: int, length: int) -> str:
    return text[start : start + length] + ("…" if len(text) > start + length else "")


def _neighbours(node: LexborNode) -> list[str]:
    """Runs of words right before and right after a link, in its nearest ancestor that has any."""
    parent = node.parent
    while parent is not None:
        text = fold(parent.text())
        head, found, tail = text.partition(fold(node.text())) if fold(node.text()) else (text, "", "")
        runs = [
            " ".join(head.split(" ")[-_WORDS:]).strip(),
            " ".join(tail.split(" ")[: _WORDS + 1]).strip() if found else "",
        ]
        runs = [run for run in runs if len(run) >= 12]
        if runs or parent.tag == "body":
            return runs
        parent = parent.parent
    return []


def _holder_of(tree: LexborHTMLParser, runs: list[str]) -> LexborNode | None:
    """The smallest element whose text holds one of the runs."""
    body = tree.body
    if body is None:
        return None
    for run in runs:
        best: LexborNode | None = None
        node: LexborNode | None = body if run in fold(body.text()) else None
        while node is not None:
            best = node
            node = next((child for child in node.iter() if run in fold(child.text())), None)
        if best is not None:
            return best
    return None


def _by_locator(tree: LexborHTMLParser, locator: str) -> LexborNode | None:
    """The element of the longest part of a locator that the page still has, from its anchor down."""
    steps = locator.split("/")[:-1]
    for length in range(len(steps), 0, -1):
        selector = " > ".join(_selector(step) for step in steps[:length])
        try:
            found = tree.css_first(selector)
        except ValueError:
            return None
        if found is not None:
            return found
    return None


def _selector(step: str) -> str:
    tag, mark, own_id = step.partition("#")
    return f'{tag}[id="{own_id.replace(chr(34), "")}"]' if mark else tag
