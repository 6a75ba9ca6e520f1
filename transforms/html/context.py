"""Where a link stands on its page. Here: placement, hiding and locator, from the link's ancestors. Not here: its text.

Ancestors are looked at once per page (memoised by node), so a page with many links in one list pays for the list once.
Sources: HTML-AAM 1.0 §3.4 (`header` and `footer` are landmarks only outside of sectioning content), WAI-ARIA 1.2 §5.3.4.
"""

from __future__ import annotations

import re

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


class Context:
    """What an element passes on to what is inside it. Shared by elements that pass on the same."""

    __slots__ = ("children", "in_section", "is_hidden", "is_invisible", "is_undisplayed", "path", "placement")

    def __init__(
        self,
        placement: str | None = None,
        is_hidden: bool = False,
        is_undisplayed: bool = False,
        is_invisible: bool = False,
        in_section: bool = False,
        path: tuple[str, ...] = (),
    ) -> None:
        self.placement = placement
        """content | header | footer | sidebar | navigation (nothing nearer says more) | None"""
        self.is_hidden = is_hidden
        self.is_undisplayed = is_undisplayed
        """Not laid out at all (`hidden`, `display:none`)."""
        self.is_invisible = is_invisible
        """`visibility: hidden` is inherited: nothing inside renders text."""
        self.in_section = in_section
        self.path = path
        """Tags from the nearest element with a stable id (or landmark), that element first, at most six."""
        self.children: dict[str, Context] = {}
        """Contexts of elements in here that add nothing but their tag."""

    @property
    def placement_name(self) -> str:
        """As the manifest spells it. Navigation that stands in no other landmark heads its page."""
        return "header" if self.placement == "navigation" else self.placement or "unknown"

    def locator(self, tag: str) -> str:
        """A short path such as `main#story/p/a`: no positions and no classes, so that unrelated edits leave it alone."""
        return "/".join((*self.path, tag))


class Contexts:
    """The contexts of one page's elements."""

    def __init__(self) -> None:
        self._known: dict[int, Context] = {}
        self._top = Context()

    def of(self, node: LexborNode | None) -> Context:
        """Context of an element and all its ancestors. Iterative: a page chooses its own depth."""
        chain: list[tuple[int, LexborNode]] = []
        known = self._known
        context = self._top
        while node is not None:
            key = node.mem_id
            found = known.get(key)
            if found is not None:
                context = found
                break
            chain.append((key, node))
            node = node.parent
        while chain:
            key, element = chain.pop()
            context = known[key] = _enter(element, context, self._top)
        return context


_TOPS = frozenset({"-document", "html", "body"})
_TELLING = frozenset({"role", "hidden", "style", "aria-hidden", "id"})


def _enter(element: LexborNode, outer: Context, top: Context) -> Context:
    tag = element.tag or ""
    attributes = element.attributes
    plain = not attributes or attributes.keys().isdisjoint(_TELLING)
    if tag in _TOPS:
        if plain or tag != "body":
            return top
        gone, unseen = undisplayed(attributes), bool(invisible(attributes))
        return Context(None, gone or unseen or attributes.get("aria-hidden") == "true", gone, unseen)
    if plain:
        shared = outer.children.get(tag)
        if shared is not None:
            return shared
    landmark = _ELEMENTS.get(tag)
    if landmark in ("header", "footer") and outer.in_section:
        landmark = None
    hidden, gone, unseen, name = outer.is_hidden, outer.is_undisplayed, outer.is_invisible, tag
    stable_id = False
    if not plain:
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
    context = Context(placement, hidden, gone, unseen, outer.in_section or tag in _SECTIONING, path)
    if plain:
        outer.children[tag] = context
    return context
