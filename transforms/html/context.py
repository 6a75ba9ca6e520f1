"""Where a link stands on its page. Here: placement, hiding and locator, from the link's ancestors. Not here: its text.

Ancestors are looked at once per page (memoised by node), so a page with many links in one list pays for the list once.
Sources: HTML-AAM 1.0 §3.4 (`header` and `footer` are landmarks only outside of sectioning content), WAI-ARIA 1.2 §5.3.4.
"""

from __future__ import annotations

import re

from selectolax.lexbor import LexborNode

from transforms.html.text import FOREIGN_GONE, GONE, UNTRANSFORMED, skips_content, style_of, undisplayed

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

    __slots__ = (
        "_locators", "children", "foreign", "in_section", "is_hidden", "is_invisible", "is_skipped", "is_undisplayed", "path",
        "placement", "placement_name",
        "summary_is_skipped", "transform",
    )  # fmt: skip

    def __init__(
        self,
        placement: str | None = None,
        is_hidden: bool = False,
        is_undisplayed: bool = False,
        is_invisible: bool = False,
        in_section: bool = False,
        path: tuple[str, ...] = (),
        is_skipped: bool = False,
        foreign: str = "",
        transform: str | None = None,
    ) -> None:
        self.placement = placement
        """content | header | footer | sidebar | navigation (nothing nearer says more) | None"""
        self.is_hidden = is_hidden
        """Hidden by what nothing inside undoes: everything but `is_invisible`."""
        self.is_undisplayed = is_undisplayed
        """Not laid out at all (`hidden`, `display:none`, a closed dialog, fallback content)."""
        self.is_invisible = is_invisible
        """`visibility: hidden` is inherited: nothing inside renders text, but what says `visible` again (CSS 2 §11.2)."""
        self.in_section = in_section
        self.path = path
        """Tags from the nearest element with a stable id (or landmark), that element first, at most six."""
        self.is_skipped = is_skipped
        """Laid out and not painted until a person opens it (a closed `details`): no rendered text."""
        self.summary_is_skipped: bool | None = None
        """Of a closed `details`: what its summary, which is painted, inherits."""
        self.foreign = foreign
        """`svg` or `math`: inside of it, where elements are not HTML ones."""
        self.transform = transform
        """`text-transform` is inherited."""
        self.placement_name = "header" if placement == "navigation" else placement or "unknown"
        """As the manifest spells it. Navigation that stands in no other landmark heads its page."""
        self._locators: dict[str, str] = {}
        self.children: dict[str, Context] = {}
        """Contexts of elements in here that add nothing but their tag."""

    def locator(self, tag: str) -> str:
        """A short path such as `main#story/p/a`: no positions and no classes, so that unrelated edits leave it alone."""
        known = self._locators.get(tag)
        if known is None:
            known = self._locators[tag] = "/".join((*self.path, tag))
        return known


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
            context = known[key] = _enter(element, context)
        return context


_TOPS = frozenset({"-document", "html", "body"})
_TELLING = frozenset({"role", "hidden", "style", "aria-hidden", "id", "open", "encoding"})
_FOREIGN_ROOTS = frozenset({"svg", "math"})
_INTEGRATION_POINTS = dict.fromkeys(("foreignobject", "foreignObject", "desc", "title"), "svg") | dict.fromkeys(
    ("mi", "mo", "mn", "ms", "mtext", "annotation-xml"), "math"
)


def _html_again(tag: str, attributes: dict[str, str | None]) -> str:
    """In which of SVG and MathML an element of this name holds HTML again (HTML §13.2.6, "MathML text integration point",
    "HTML integration point"); empty: in none."""
    if tag == "annotation-xml" and (attributes.get("encoding") or "").lower() not in (
        "text/html",
        "application/xhtml+xml",
    ):
        return ""
    return _INTEGRATION_POINTS.get(tag, "")


def is_aria_hidden(attributes: dict[str, str | None]) -> bool:
    """`aria-hidden=true`, whose value is compared without regard to case (ARIA in HTML §2)."""
    return (attributes.get("aria-hidden") or "").lower() == "true"


def is_foreign(node: LexborNode) -> bool:
    """An element of SVG or MathML that only has the name of an HTML one (HTML §13.2.6.5)."""
    points: set[str] = set()
    parent = node.parent
    while parent is not None:
        tag = parent.tag or ""
        if tag in _FOREIGN_ROOTS:
            return tag not in points
        if tag in _INTEGRATION_POINTS:
            points.add(_html_again(tag, parent.attributes))
        parent = parent.parent
    return False


def _enter(element: LexborNode, outer: Context) -> Context:
    tag = element.tag or ""
    attributes = element.attributes
    plain = not attributes or attributes.keys().isdisjoint(_TELLING)
    if tag in _TOPS:
        if plain:
            return outer
        gone, style = undisplayed(attributes) or outer.is_undisplayed, style_of(attributes)
        unseen = outer.is_invisible if style.is_hidden is None else style.is_hidden
        hidden = outer.is_hidden or gone or is_aria_hidden(attributes)
        return Context(None, hidden, gone, unseen, transform=style.transform or outer.transform)
    if plain:
        shared = outer.children.get(tag)
        if shared is not None:
            return shared
    landmark = _ELEMENTS.get(tag)
    if landmark in ("header", "footer") and outer.in_section:
        landmark = None
    hidden, gone, unseen, name = outer.is_hidden, outer.is_undisplayed, outer.is_invisible, tag
    skipped, foreign, transform = outer.is_skipped, outer.foreign, outer.transform
    stable_id = False
    if tag in (FOREIGN_GONE if foreign else GONE) or (
        tag == "dialog" and "open" not in attributes and style_of(attributes).display is None
    ):
        gone = hidden = True
    elif tag == "summary" and outer.summary_is_skipped is not None:
        skipped = outer.summary_is_skipped
    if tag in UNTRANSFORMED:
        transform = None
    is_closed = tag == "details" and "open" not in attributes
    if tag in _FOREIGN_ROOTS:
        foreign = tag
    elif foreign and _html_again(tag, attributes) == foreign:
        foreign = ""
    if not plain:
        role = attributes.get("role")
        if role:
            words = role.lower().split()
            landmark = next((_ROLES[word] for word in words if word in _ROLES), None if words else landmark)
        gone = gone or (undisplayed(attributes) and not foreign)
        until_found = tag != "details" and not gone and skips_content(tag, attributes)
        skipped = skipped or until_found
        style = style_of(attributes)
        unseen = unseen if style.is_hidden is None else style.is_hidden
        transform = style.transform or transform
        hidden = hidden or gone or until_found or is_aria_hidden(attributes)
        own_id = attributes.get("id")
        if own_id and len(own_id) <= 64 and _UNSTABLE_ID.search(own_id) is None:
            name, stable_id = f"{tag}#{own_id}", True
    placement = outer.placement
    if landmark is not None and not (landmark == "navigation" and placement is not None):
        placement = landmark
    path = (name,) if stable_id or landmark is not None else (*outer.path[-(_MAX_STEPS - 1) :], name)
    context = Context(
        placement,
        hidden,
        gone,
        unseen,
        outer.in_section or tag in _SECTIONING,
        path,
        skipped or (is_closed and not gone),
        foreign,
        transform,
    )
    if is_closed:
        context.summary_is_skipped = skipped
    if plain:
        outer.children[tag] = context
    return context
