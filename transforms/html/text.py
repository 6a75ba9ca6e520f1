"""Text as a browser renders it, without author style sheets. Here: `innerText` as far as markup decides it, folding.

Source: HTML §3.2.7 "The innerText and outerText properties", §15.3 (default style sheet). Not here: which links exist.
"""

from __future__ import annotations

import re

from selectolax.lexbor import LexborNode

_SPACES = re.compile("[ \t\n\f\r]+")

BLOCKS = frozenset(
    [
        "address",
        "article",
        "aside",
        "blockquote",
        "body",
        "center",
        "dd",
        "details",
        "dialog",
        "dir",
        "div",
        "dl",
        "dt",
        "fieldset",
        "figcaption",
        "figure",
        "footer",
        "form",
        "h1",
        "h2",
        "h3",
        "h4",
        "h5",
        "h6",
        "header",
        "hgroup",
        "hr",
        "html",
        "legend",
        "li",
        "listing",
        "main",
        "menu",
        "nav",
        "ol",
        "optgroup",
        "option",
        "p",
        "plaintext",
        "pre",
        "search",
        "section",
        "summary",
        "table",
        "caption",
        "thead",
        "tbody",
        "tfoot",
        "tr",
        "td",
        "th",
        "ul",
        "xmp",
        "br",
    ]
)
"""Elements that stand on lines (or in cells) of their own: a space on either side, once folded."""

NOT_RENDERED = frozenset(
    [
        "script",
        "style",
        "template",
        "head",
        "title",
        "meta",
        "link",
        "base",
        "noembed",
        "noframes",
        "datalist",
        "rp",
        "param",
        "area",
        "source",
        "track",
        "iframe",
        "object",
        "embed",
        "video",
        "audio",
        "select",
        "textarea",
        "input",
        "desc",
        "metadata",
        "defs",
        "-comment",
    ]
)
"""Elements whose text is never part of the rendered text."""

_HIDING_STYLE = re.compile(
    r"(?:^|;)\s*(?:display\s*:\s*none|visibility\s*:\s*(?:hidden|collapse))\s*(?:!\s*important\s*)?(?:;|$)", re.I
)


def fold(text: str) -> str:
    """HTML white space (space, tab, LF, FF, CR) folded to single spaces and trimmed; a no-break space is a character."""
    if "\n" in text or "  " in text or "\t" in text or "\r" in text or "\f" in text:
        text = _SPACES.sub(" ", text)
    return text.strip(" ")


def hides(attributes: dict[str, str | None]) -> bool:
    """Whether an element's own attributes take it out of the rendering: `hidden`, `display:none`, `visibility:hidden`."""
    if "hidden" in attributes:
        return True
    style = attributes.get("style")
    return style is not None and _HIDING_STYLE.search(style) is not None


def rendered(node: LexborNode) -> tuple[str, bool]:
    """Rendered text of a link's content, folded, and whether it is the alternative text of images.

    Alternative texts (and the label of an `svg`) count only where there is no text at all.
    """
    child = node.first_child
    if child is None:
        return "", False
    if child.next is None:
        text = child.text_content
        if text is not None:
            return fold(text), False
    pieces: list[str] = []
    images: list[str] = []
    _collect(node, pieces, images)
    text = fold("".join(pieces))
    if text or not images:
        return text, False
    return fold(" ".join(images)), True


def _collect(top: LexborNode, pieces: list[str], images: list[str]) -> None:
    """Depth first over a link's content, without recursion (a page chooses the depth)."""
    stack: list[tuple[LexborNode | None, str]] = [(top.first_child, "")]
    while stack:
        node, closing = stack.pop()
        if node is None:
            if closing:
                pieces.append(closing)
            continue
        stack.append((node.next, closing))
        text = node.text_content
        if text is not None:
            pieces.append(text)
            continue
        tag = node.tag
        if tag == "img":
            images.append(node.attributes.get("alt") or "")
            continue
        if tag is None or tag in NOT_RENDERED:
            continue
        attributes = node.attributes
        if attributes and hides(attributes):
            continue
        if tag == "svg":
            images.append(_svg_label(node, attributes))
        if tag in BLOCKS:
            pieces.append("\n")
            stack.append((node.first_child, "\n"))
        else:
            stack.append((node.first_child, ""))


def _svg_label(node: LexborNode, attributes: dict[str, str | None]) -> str:
    label = attributes.get("aria-label")
    if label:
        return label
    title = node.css_first("title")
    return "" if title is None else title.text()
