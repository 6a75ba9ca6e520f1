"""The links of a parsed page. Here: which elements link, and one row for each. Not here: the page row (`page`).

`a[href]` and `area[href]` are what a browser with scripts off lets a person follow (SVG's `a` included; its `xlink:href`
is not matched by `[href]` and is kept apart as kind `svg_xlink`). Template content, comments, scripts and text areas are no
elements of the document; `noscript` is, when scripts are off.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from selectolax.lexbor import LexborNode

from transforms.html.context import Contexts, is_aria_hidden
from transforms.html.headers import HeaderLink, refresh_target
from transforms.html.limits import ParseLimits
from transforms.html.resolver import Resolver
from transforms.html.text import fold, rendered, skips_content, style_of, undisplayed

LINK_COLUMNS = (
    "position", "kind", "raw_href", "resolved", "identity", "identity_hash", "refusal", "host", "registrable_domain",
    "anchor_text", "anchor_raw", "is_image", "rel", "rel_nofollow", "rel_ugc", "rel_sponsored", "follow", "placement", "is_hidden",
    "locator", "occurrence_key",
)  # fmt: skip
"""Columns of `LINK_MANIFESTS` that a page decides by itself, in the order of the row tuples."""

SELECTOR = "a,area,link,meta,base,iframe,frame,form,title"
_REL_SPLIT = re.compile(r"[\t\n\f\r ,]+")
_HIDING = frozenset({"hidden", "style", "aria-hidden"})
_NO_REL: tuple[str, ...] = ()
_REL_KINDS = (("canonical", "canonical"), ("alternate", "alternate"))


@dataclass
class LinkRows:
    """Rows of one page's links, as tuples in `LINK_COLUMNS` order."""

    rows: list[tuple[Any, ...]] = field(default_factory=list)
    is_cut: bool = False
    clickable: int = 0
    """a[href] and area[href]"""

    def dicts(self) -> list[dict[str, Any]]:
        return [dict(zip(LINK_COLUMNS, row, strict=True)) for row in self.rows]


@lru_cache(4096)
def rel_tokens(value: str | None) -> tuple[str, ...]:
    """The set of link types: lower case, unique, in order; separated by white space and, as found in the wild, commas."""
    if not value:
        return _NO_REL
    return tuple(dict.fromkeys(token for token in _REL_SPLIT.split(value.lower()) if token))


class LinkCollector:
    """Turns elements into rows. One per page."""

    def __init__(self, resolver: Resolver, page_follow: str, limits: ParseLimits) -> None:
        self._resolver = resolver
        self._page_follow = page_follow
        self._limits = limits
        self._contexts = Contexts()
        self._nth: dict[str, int] = {}
        self.links = LinkRows()

    def clickable(self, node: LexborNode, tag: str, attributes: dict[str, str | None]) -> None:
        """An `a` or `area`; without an href it is no link."""
        if "href" in attributes:
            raw, kind = attributes["href"] or "", tag
            self.links.clickable += 1
        elif "xlink:href" in attributes:
            raw, kind = attributes["xlink:href"] or "", "svg_xlink"
        else:
            return
        if len(self.links.rows) >= self._limits.max_links:
            self.links.is_cut = True
            return
        context = self._contexts.of(node.parent)
        hidden, gone, unseen = context.is_hidden, context.is_undisplayed, context.is_invisible
        skipped = context.is_skipped
        transform = context.transform
        if not attributes.keys().isdisjoint(_HIDING):
            gone = gone or undisplayed(attributes)
            skipped = skipped or skips_content(tag, attributes)
            style = style_of(attributes)
            unseen = unseen if style.is_hidden is None else style.is_hidden
            transform = style.transform or transform
            hidden = hidden or gone or is_aria_hidden(attributes)
        hidden = hidden or unseen
        is_image = False
        if tag == "area" and not context.foreign:
            text = raw_text = attributes.get("alt") or ""
            is_image = True
        elif skipped:
            text, raw_text = "", node.text()
        elif gone or context.foreign:
            # A link that is not laid out has no rendered text: `innerText` is then `textContent` (HTML §3.2.7, step 1);
            # a link of SVG or MathML has no `innerText` at all.
            raw_text = node.text()
            text = fold(raw_text)
        else:
            text, raw_text, is_image = rendered(node, unseen, transform)
        self._row(
            kind,
            raw,
            text,
            raw_text,
            is_image,
            attributes.get("rel"),
            context.placement_name,
            hidden,
            context.locator(tag),
            self._resolver,
        )

    def element(self, kind: str, raw: str, node: LexborNode, attributes: dict[str, str | None], text: str = "") -> None:
        """A link of another kind: frame, form, link element or meta refresh."""
        context = self._contexts.of(node.parent)
        if context.foreign:
            return  # `<svg><form action>`: an element of SVG, which has no such one
        hidden, unseen = context.is_hidden, context.is_invisible
        if not attributes.keys().isdisjoint(_HIDING):
            style = style_of(attributes)
            unseen = unseen if style.is_hidden is None else style.is_hidden
            hidden = hidden or undisplayed(attributes) or is_aria_hidden(attributes)
        hidden = hidden or unseen
        locator = context.locator(node.tag or "")
        self._row(
            kind, raw, text, text, False, attributes.get("rel"), context.placement_name, hidden, locator, self._resolver
        )

    def header(self, kind: str, raw: str, rel: tuple[str, ...], text: str, resolver: Resolver) -> None:
        """A link that an HTTP header carries; resolved against the document's URL, not the page's base."""
        self._row(kind, raw, text, text, False, " ".join(rel), "unknown", False, kind, resolver)

    def _row(
        self, kind: str, raw: str, text: str, raw_text: str, is_image: bool, rel: str | None, placement: str, hidden: bool,
        locator: str, resolver: Resolver,
    ) -> None:  # fmt: skip
        rows = self.links.rows
        limits = self._limits
        if len(rows) >= limits.max_links:
            self.links.is_cut = True
            return
        if len(raw_text) > limits.max_anchor_chars or len(text) > limits.max_anchor_chars:
            text, raw_text = text[: limits.max_anchor_chars], raw_text[: limits.max_anchor_chars]
        resolved, identity, identity_hash, refusal, host, domain = resolver(raw)
        tokens = rel_tokens(rel) if rel else _NO_REL
        nofollow = "nofollow" in tokens
        same = f"{kind}\0{identity or raw}\0{text}\0{placement}\0{locator}\0"
        nth = self._nth.get(same, 0)
        self._nth[same] = nth + 1
        key = hashlib.sha256(f"{same}{nth}".encode("utf-8", "surrogatepass")).digest()
        rows.append((
            len(rows), kind, raw, resolved, identity, identity_hash, refusal, host, domain, text, raw_text, is_image, tokens,
            nofollow, "ugc" in tokens, "sponsored" in tokens, "nofollow_link" if nofollow else self._page_follow, placement, hidden,
            locator, key,
        ))  # fmt: skip


def collect_element(collector: LinkCollector, node: LexborNode, tag: str, attributes: dict[str, str | None]) -> None:
    """Rows of one element that is neither `a` nor `area`."""
    if tag == "link":
        if "href" in attributes:
            rel = rel_tokens(attributes.get("rel"))
            for token, kind in _REL_KINDS:
                if token in rel and not (kind == "alternate" and "stylesheet" in rel):
                    text = attributes.get("title") or attributes.get("hreflang") or ""
                    collector.element(kind, attributes["href"] or "", node, attributes, text)
    elif tag == "meta":
        if (attributes.get("http-equiv") or "").lower() == "refresh":
            refresh = refresh_target(attributes.get("content") or "")
            if refresh is not None:
                collector.element("meta_refresh", refresh[1], node, attributes)
    elif tag in ("iframe", "frame"):
        if "src" in attributes and "srcdoc" not in attributes:
            collector.element("frame", attributes["src"] or "", node, attributes, attributes.get("title") or "")
    elif tag == "form" and "action" in attributes:
        collector.element("form", attributes["action"] or "", node, attributes)


def collect_headers(collector: LinkCollector, links: list[HeaderLink], refresh: str | None, resolver: Resolver) -> None:
    """Rows of the response's headers, after those of the document."""
    for link in links:
        collector.header(
            "link_header",
            link.target,
            link.rel,
            link.parameters.get("title*", link.parameters.get("title", "")),
            resolver,
        )
    if refresh is not None:
        target = refresh_target(refresh)
        if target is not None:
            collector.header("http_refresh", target[1], _NO_REL, "", resolver)
