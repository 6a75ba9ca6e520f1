"""Text as a browser renders it, without author style sheets. Here: `innerText` as far as markup decides it, folding.

Source: HTML §3.2.7 "The innerText and outerText properties", §15.3 (default style sheet). Not here: which links exist.
"""

# ruff: noqa: SIM905 - names of elements read better in a row

from __future__ import annotations

import re

from selectolax.lexbor import LexborNode

_SPACES = re.compile("[ \t\n\f\r]+")

BLOCKS = frozenset(
    (
        "address article aside blockquote body center dd details dialog dir div dl dt fieldset figcaption figure footer form "
        "h1 h2 h3 h4 h5 h6 header hgroup hr html legend li listing main menu nav ol optgroup option p plaintext pre search "
        "section summary table caption thead tbody tfoot tr td th ul xmp br"
    ).split(" ")
)
"""Elements that stand on lines (or in cells) of their own: a space on either side, once folded."""

NOT_RENDERED = frozenset(
    (
        "script style template head title meta link base noembed noframes datalist rp param area source track "
        "iframe embed video audio textarea input meter progress desc metadata defs -comment"
    ).split(" ")
)
"""Elements whose text is never part of the rendered text."""

_SVG_TEXT = frozenset({"text", "foreignobject", "foreignObject"})
_DISPLAY = re.compile(r"(?:^|;)\s*display\s*:\s*([a-z-]+)", re.IGNORECASE)
_VISIBILITY = re.compile(r"(?:^|;)\s*visibility\s*:\s*(hidden|collapse|visible)", re.IGNORECASE)
_TRANSFORM = re.compile(r"(?:^|;)\s*text-transform\s*:\s*(uppercase|lowercase)", re.IGNORECASE)
_BLOCK_DISPLAYS = frozenset({"block", "flex", "grid", "table", "list-item", "flow-root", "table-cell", "table-row"})


def fold(text: str) -> str:
    """HTML white space (space, tab, LF, FF, CR) folded to single spaces and trimmed; a no-break space is a character."""
    if "\n" in text or "  " in text or "\t" in text or "\r" in text or "\f" in text:
        text = _SPACES.sub(" ", text)
    return text.strip(" ")


def undisplayed(attributes: dict[str, str | None]) -> bool:
    """Whether an element's own attributes leave it out of the layout: `hidden` or `display:none`."""
    if "hidden" in attributes:
        return True
    style = attributes.get("style")
    return style is not None and _display(style) == "none"


def invisible(attributes: dict[str, str | None]) -> bool | None:
    """What an element's style says of its visibility, which is inherited: True hidden, False visible, None nothing."""
    style = attributes.get("style")
    if style is None:
        return None
    found = _VISIBILITY.search(style)
    return None if found is None else found.group(1).lower() != "visible"


def _display(style: str) -> str | None:
    """The last `display` of a style attribute."""
    found = None
    for match in _DISPLAY.finditer(style):
        found = match.group(1).lower()
    return found


def rendered(node: LexborNode, *, is_invisible: bool = False) -> tuple[str, str, bool]:
    """Rendered text of a link's content, folded; the same before folding; whether it is the alternative text of images.

    Alternative texts (and the label of an `svg`) count only where there is no text at all.
    """
    child = node.first_child
    if child is None:
        return "", "", False
    if child.next is None and not is_invisible:
        text = child.text_content
        if text is not None:
            return fold(text), text, False
    pieces: list[str] = []
    images: list[str] = []
    _collect(node, is_invisible, pieces, images)
    text = fold("".join(pieces))
    if text or not images:
        return text, node.text(), False
    alternative = " ".join(images)
    return fold(alternative), alternative, True


def transformed(text: str, attributes: dict[str, str | None]) -> str:
    """Text after the link's own `text-transform`."""
    style = attributes.get("style")
    found = None if style is None else _TRANSFORM.search(style)
    if found is None:
        return text
    return text.upper() if found.group(1).lower() == "uppercase" else text.lower()


def _collect(top: LexborNode, unseen: bool, pieces: list[str], images: list[str]) -> None:
    """Depth first over a link's content, without recursion (a page chooses the depth)."""
    stack: list[tuple[LexborNode | None, str, bool]] = [(top.first_child, "", unseen)]
    while stack:
        node, closing, unseen = stack.pop()
        if node is None:
            if closing:
                pieces.append(closing)
            continue
        stack.append((node.next, closing, unseen))
        text = node.text_content
        if text is not None:
            if not unseen:
                pieces.append(text)
            continue
        tag = node.tag
        if tag is None or tag in NOT_RENDERED:
            continue
        attributes = node.attributes
        is_block = tag in BLOCKS
        if attributes:
            if undisplayed(attributes):
                continue
            style = attributes.get("style")
            if style is not None:
                hidden = invisible(attributes)
                unseen = unseen if hidden is None else hidden
                display = _display(style)
                if display is not None:
                    is_block = display in _BLOCK_DISPLAYS
        if tag == "img":
            images.append(attributes.get("alt") or "")
            continue
        if tag == "svg":
            images.append(_svg_label(node, attributes))
            stack.append((node.first_child, "", True))  # only its text elements show text
            continue
        if tag in _SVG_TEXT:
            unseen = False
        if (tag == "dialog" and "open" not in attributes) or (tag == "object" and "data" in attributes):
            continue
        child = node.first_child
        if tag == "details" and "open" not in attributes:
            summary = next((one for one in node.iter() if one.tag == "summary"), None)
            child = None if summary is None else summary.first_child
            if summary is not None:
                pieces.append("\n")
                stack.append((child, "\n", unseen))
            continue
        if is_block:
            pieces.append("\n")
            stack.append((child, "\n", unseen))
        else:
            stack.append((child, "", unseen))


def _svg_label(node: LexborNode, attributes: dict[str, str | None]) -> str:
    label = attributes.get("aria-label")
    if label:
        return label
    title = node.css_first("title")
    return "" if title is None else title.text()
