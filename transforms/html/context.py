"""Where a link stands on its page. Here: placement, hiding and locator, from the link's ancestors. Not here: its text.

Ancestors are looked at once per page (memoised by node), so a page with many links in one list pays for the list once.
Sources: HTML-AAM 1.0 §3.4 (`header` and `footer` are landmarks only outside of sectioning content), WAI-ARIA 1.2 §5.3.4.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from selectolax.lexbor import LexborNode

from transforms.html.text import invisible, undisplayed

_ROLES = {
    "banner": "header",
    "contentinfo": "footer",
    "complementary": "sidebar",
    "main": "content",
    "article": "content",
    "navigation": "navigation",
}
_ELEMENTS = {
    "main": "content",
    "article": "content",
    "aside": "sidebar",
    "nav": "navigation",
    "header": "header",
    "footer": "footer",
}
_SECTIONING = frozenset({"article", "aside", "main", "nav", "section"})
_UNSTABLE_ID = re.compile(r"\d{3,}|[0-9a-f]{8,}|:|^ember|^yui|^ext-", re.IGNORECASE)
_MAX_STEPS = 6


class Context(NamedTuple):
    """What an element passes on to what is inside it."""

    placement: str | None
    """content | header | footer | sidebar | navigation (nothing nearer says more) | None"""
    is_hidden: bool
    is_undisplayed: bool
    """Not laid out at all (`hidden`, `display:none`)."""
    is_invisible: bool
    """`visibility: hidden` is inherited: nothing inside renders text."""
    in_section: bool
    path: tuple[str, ...]
    """Tags from the nearest element with a stable id (or landmark), that element first, at most six."""


_TOP = Context(None, False, False, False, False, ())


class Contexts:
    """The contexts of one page's elements."""

    def __init__(self) -> None:
        self._known: dict[int, Context] = {}

    def of(self, node: LexborNode | None) -> Context:
        """Context of an element and all its ancestors. Iterative: a page chooses its own depth."""
        chain: list[tuple[int, LexborNode]] = []
        context = _TOP
        while node is not None:
            key = node.mem_id
            known = self._known.get(key)
            if known is not None:
                context = known
                break
            chain.append((key, node))
            node = node.parent
        for key, element in reversed(chain):
            context = self._known[key] = _enter(element, context)
        return context


def placement_name(context: Context) -> str:
    """The placement as the manifest spells it. Navigation that stands in no other landmark heads its page."""
    if context.placement == "navigation":
        return "header"
    return context.placement or "unknown"


def locator(context: Context, tag: str) -> str:
    """A short path such as `main#story/p/a`: no positions and no classes, so that unrelated edits leave it alone."""
    return "/".join((*context.path, tag))


def _enter(element: LexborNode, outer: Context) -> Context:
    tag = element.tag
    if tag is None or tag in ("-document", "html", "body"):
        attributes = element.attributes if tag == "body" else None
        if not attributes:
            return _TOP
        gone, unseen = undisplayed(attributes), bool(invisible(attributes))
        return _TOP._replace(
            is_hidden=gone or unseen or attributes.get("aria-hidden") == "true",
            is_undisplayed=gone,
            is_invisible=unseen,
        )
    attributes = element.attributes
    landmark = _ELEMENTS.get(tag)
    if landmark in ("header", "footer") and outer.in_section:
        landmark = None
    hidden, gone, unseen, name = outer.is_hidden, outer.is_undisplayed, outer.is_invisible, tag
    stable_id = False
    if attributes:
        role = attributes.get("role")
        if role:
            words = role.lower().split()
            landmark = next((_ROLES[word] for word in words if word in _ROLES), None if words else landmark)
        gone = gone or undisplayed(attributes)
        own = invisible(attributes)
        unseen = unseen if own is None else own
        hidden = hidden or gone or unseen or attributes.get("aria-hidden") == "true"
        own_id = attributes.get("id")
        if own_id and len(own_id) <= 64 and _UNSTABLE_ID.search(own_id) is None:
            name, stable_id = f"{tag}#{own_id}", True
    placement = outer.placement
    if landmark is not None and not (landmark == "navigation" and placement is not None):
        placement = landmark
    path = (name,) if stable_id or landmark is not None else (*outer.path[-(_MAX_STEPS - 1) :], name)
    return Context(placement, hidden, gone, unseen, outer.in_section or tag in _SECTIONING, path)
