"""Text as a browser renders it, without author style sheets. Here: `innerText` as far as markup decides it, folding.

Source: HTML §3.2.7 "The innerText and outerText properties", §15.3 (default style sheet). Not here: which links exist.
"""

# ruff: noqa: SIM905 - names of elements read better in a row

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

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
        "iframe embed video audio textarea input meter progress frameset -comment"
    ).split(" ")
)
"""Elements whose text is never part of the rendered text around them."""

GONE = frozenset({"datalist", "rp", "noembed", "video", "audio", "meter", "progress"})
FOREIGN_GONE = frozenset({"title", "desc", "metadata"})
"""Elements (of HTML; of SVG) that lay nothing out of what is inside them; text of a link in there is its `textContent` (§3.2.7, step 1)."""

UNTRANSFORMED = frozenset({"button", "select"})
"""Controls begin anew with `text-transform: none` (§15.5.2)."""

_BLOCK, _OPEN, _CLOSE = "\ud800", "\ud801", "\ud802"
"""Stand at the edges of blocks and of atomic inlines while text is collected: no page has them, decoders replace surrogates."""
_MATH_TOKENS = frozenset({"mi", "mn", "mo", "ms", "mtext"})
_SHOW_TEXT = _MATH_TOKENS | {"text", "foreignobject", "foreignObject", "option"}
"""Elements inside `svg`, `math` and `select` that show text; nothing around them does."""
_BLOCK_DISPLAYS = frozenset(
    {"block", "flex", "grid", "table", "list-item", "flow-root", "table-cell", "table-row", "table-caption"}
)
_ATOMIC_DISPLAYS = frozenset({"inline-block", "inline-flex", "inline-grid", "inline-table"})
_ATOMS = frozenset({"button", "marquee"})
_DISPLAYS = _BLOCK_DISPLAYS | frozenset(
    (
        "none contents inline inline-block inline-flex inline-grid inline-table ruby ruby-text math -webkit-box -webkit-flex "
        "-webkit-inline-box -webkit-inline-flex table-row-group table-header-group table-footer-group table-column "
        "table-column-group initial inherit unset revert"
    ).split(" ")
)
_DECLARATION = re.compile(
    r"(?:^|;)\s*(?P<name>display|visibility|text-transform|float|position)\s*:\s*(?P<value>[a-z-]+)\s*(?P<strong>!\s*important)?\s*(?=;|$)",
    re.IGNORECASE,
)
_STYLE_TOKEN = re.compile(
    r"""/\*.*?(?:\*/|$)|(?P<string>"(?:[^"\\\n]|\\.)*"?|'(?:[^'\\\n]|\\.)*'?|url\([ \t\n\f\r]*(?!["' \t\n\f\r])(?:[^)\\]|\\.)*\)?)"""
    r"""|\\(?:(?P<hex>[0-9a-f]{1,6})(?:\r\n|[ \t\n\f\r])?|(?P<char>[^\n]))|(?P<open>[(\[{])|(?P<close>[)\]}])""",
    re.DOTALL | re.IGNORECASE,
)
_CLOSES = {"(": ")", "[": "]", "{": "}"}
_INTRICATE = re.compile(r"""["'(\[{\\]|/\*""")
_WORD = re.compile(r"\w+(?:['\u2019.\xb7\xad\u200c\u200d\u2060\ufeff]+\w+)*")


class Style(NamedTuple):
    """What an element's own `style` attribute decides of its text. None: nothing."""

    display: str | None = None
    is_hidden: bool | None = None
    """`visibility`, which is inherited: True hidden, False visible."""
    transform: str | None = None
    """`text-transform`, which is inherited: uppercase | lowercase | capitalize | none"""
    is_block: bool | None = None


NO_STYLE = Style()


def style_of(attributes: dict[str, str | None]) -> Style:
    """The style attribute of an element. Style sheets are the author's wishes for the screen and are not read."""
    style = attributes.get("style")
    return NO_STYLE if not style else _style(style)


@lru_cache(4096)
def _style(style: str) -> Style:
    """The last valid declaration of each property wins, an important one before others (CSS Cascade §6.4)."""
    found: dict[str, str] = {}
    strong: set[str] = set()
    for match in _DECLARATION.finditer(style if _INTRICATE.search(style) is None else _plain_style(style)):
        name, value = match.group("name").lower(), match.group("value").lower()
        if value not in _VALUES[name] or (name in strong and not match.group("strong")):
            continue
        found[name] = value
        if match.group("strong"):
            strong.add(name)
    if not found:
        return NO_STYLE
    display, visibility = found.get("display"), found.get("visibility")
    is_block = None if display is None else display in _BLOCK_DISPLAYS
    if display not in ("none", "contents") and (
        found.get("float", "none") != "none" or found.get("position") in ("absolute", "fixed")
    ):
        is_block = True  # blockified: CSS Display §2.7
    return Style(
        display, None if visibility is None else visibility != "visible", found.get("text-transform"), is_block
    )


def _plain_style(style: str) -> str:
    """A style attribute whose every `;` and `:` is one of its own (CSS Syntax §4.3, §5.4.7): comments are gone, escapes of
    names spelled out, and a string, a URL or a block, which may hold anything (`url(data:a;display:none)`), is `()`."""
    pieces: list[str] = []
    closers: list[str] = []
    at = 0
    for match in _STYLE_TOKEN.finditer(style):
        if not closers:
            pieces.append(style[at : match.start()])
        at = match.end()
        if match["open"]:
            if not closers:
                pieces.append("()")
            closers.append(_CLOSES[match["open"]])
        elif closers:
            if match["close"] == closers[-1]:
                closers.pop()
        elif match["string"] or match["close"]:
            pieces.append("()")
        elif match["hex"] or match["char"]:
            code = int(match["hex"], 16) if match["hex"] else ord(match["char"])
            char = chr(code) if code < 0x80 else "_"
            pieces.append(char if char.isalnum() or char == "-" else "_")
    if not closers:
        pieces.append(style[at:])
    return "".join(pieces)


_VALUES = {
    "display": _DISPLAYS,
    "visibility": frozenset({"visible", "hidden", "collapse"}),
    "text-transform": frozenset({"none", "uppercase", "lowercase", "capitalize"}),
    "float": frozenset({"none", "left", "right", "inline-start", "inline-end"}),
    "position": frozenset({"static", "relative", "absolute", "fixed", "sticky"}),
}


def fold(text: str) -> str:
    """HTML white space (space, tab, LF, FF, CR) folded to single spaces and trimmed; a no-break space is a character."""
    if "\n" in text or "  " in text or "\t" in text or "\r" in text or "\f" in text:
        text = _SPACES.sub(" ", text)
    return text.strip(" ")


def undisplayed(attributes: dict[str, str | None]) -> bool:
    """Whether an element's own attributes leave it out of the layout: `hidden` or `display:none`."""
    display = style_of(attributes).display if "style" in attributes else None
    if display is None or display == "none":
        return display == "none" or ("hidden" in attributes and (attributes["hidden"] or "").lower() != "until-found")
    return False  # an author's wish overrules `hidden`, which is one of the browser's own style sheet


def skips_content(tag: str, attributes: dict[str, str | None]) -> bool:
    """Whether an element is there and what is inside it is not painted: a closed `details`, a block `hidden=until-found`."""
    if tag == "details" and "open" not in attributes:
        return True
    return tag in BLOCKS and "hidden" in attributes and (attributes["hidden"] or "").lower() == "until-found"


def transformed(text: str, transform: str | None) -> str:
    """CSS Text §2.1 `text-transform`."""
    if transform == "uppercase":
        return text.upper()
    if transform == "lowercase":
        return text.lower()
    if transform == "capitalize":
        return _WORD.sub(_capitalized, text)
    return text


def _capitalized(match: re.Match[str]) -> str:
    word = match.group()
    first = word[0].title()
    return first + word[1:] if len(first) == 1 else word


def rendered(node: LexborNode, is_invisible: bool = False, transform: str | None = None) -> tuple[str, str, bool]:
    """Rendered text of a link's content, folded; the same before folding; whether it is the alternative text of images.

    Alternative texts (and the label of an `svg`) count only where there is no text at all. `is_invisible` and `transform`:
    what the link itself inherits or declares.
    """
    child = node.first_child
    if child is None:
        return "", "", False
    if child.next is None and not is_invisible and transform is None:
        text = child.text_content
        if text is not None:
            return _folded(text) if "\u200b" in text else fold(text), text, False
    pieces: list[str] = []
    images: list[str] = []
    _collect(node, _HIDDEN if is_invisible else 0, transform, pieces, images)
    text = _folded("".join(pieces))
    if text or not images:
        return text, node.text(), False
    alternative = " ".join(images)
    return fold(alternative), alternative, True


# Run over text whose white space is single characters already, so each looks at a character once.
_BLOCK_EDGE = re.compile(rf"[ \n]?{_BLOCK}[ \n{_BLOCK}]*")
_ATOM_EDGE = re.compile(rf"(?<={_OPEN})[ \n{_BLOCK}]|[ \n{_BLOCK}](?={_CLOSE})")
_ZERO_WIDTH_EDGE = re.compile("(?<=\u200b)\n|\n(?=\u200b)")
_WITHOUT_EDGES = {ord(_BLOCK): " ", ord(_OPEN): None, ord(_CLOSE): None}


def _folded(text: str) -> str:
    """Collected text, folded; a line break beside a zero-width space is removed (CSS Text §4.1.3), blocks are apart, and an
    atomic inline has no white space at its inner edges."""
    if _BLOCK not in text and _OPEN not in text and "\u200b" not in text:
        return fold(text)
    text = _SPACES.sub(_single, text)
    if "\u200b" in text:
        text = _ZERO_WIDTH_EDGE.sub("", text)
    text = _BLOCK_EDGE.sub(_BLOCK, text)
    if _OPEN in text:
        text = _ATOM_EDGE.sub("", text)
    return fold(text.translate(_WITHOUT_EDGES))


def _single(run: re.Match[str]) -> str:
    return "\n" if "\n" in run.group() else " "


_HIDDEN, _NO_TEXT_HERE = 1, 2
"""Why text is unseen: `visibility`; an element that shows only what certain elements inside it say."""


def _collect(top: LexborNode, unseen: int, transform: str | None, pieces: list[str], images: list[str]) -> None:
    """Depth first over a link's content, without recursion (a page chooses the depth)."""
    stack: list[tuple[LexborNode | None, str, int, str | None]] = [(top.first_child, "", unseen, transform)]
    while stack:
        node, closing, unseen, transform = stack.pop()
        if node is None:
            if closing:
                pieces.append(closing)
            continue
        stack.append((node.next, closing, unseen, transform))
        text = node.text_content
        if text is not None:
            if not unseen:
                pieces.append(text if transform is None else transformed(text, transform))
            continue
        tag = node.tag
        if tag is None:
            continue
        attributes = node.attributes
        if tag not in _TOLD and (not attributes or attributes.keys().isdisjoint(_TELLING)):
            stack.append((node.first_child, "", unseen, transform))
            continue
        is_block, is_atom = tag in BLOCKS, tag in _ATOMS
        style = NO_STYLE
        if tag in UNTRANSFORMED:
            transform = None
        if attributes:
            if undisplayed(attributes):
                continue
            if "style" in attributes:
                style = style_of(attributes)
                if style.is_hidden is not None:
                    unseen = unseen | _HIDDEN if style.is_hidden else unseen & ~_HIDDEN
                transform = style.transform or transform
                if style.is_block is not None:
                    is_block = style.is_block
                    # A button is never a mere inline (HTML §15.5.3), a marquee neither in browsers.
                    is_atom = style.display in _ATOMIC_DISPLAYS or (is_atom and style.display == "inline")
        if tag == "img" or tag in NOT_RENDERED:
            if tag == "img":
                images.append(attributes.get("alt") or "")
            if style.is_block:
                pieces.append(_BLOCK)
            continue
        if tag in _FOREIGN:
            if tag == "svg":
                images.append(_svg_label(node, attributes))
            stack.append((node.first_child, "", unseen | _NO_TEXT_HERE, transform))
            continue
        if tag in _SHOW_TEXT:
            # `display: block math`; outside of a `math` such an element is an unknown one of HTML.
            is_block = is_block or (tag in _MATH_TOKENS and bool(unseen & _NO_TEXT_HERE))
            unseen &= ~_NO_TEXT_HERE
        elif tag == "select":
            unseen |= _NO_TEXT_HERE
        if (tag == "dialog" and "open" not in attributes and style.display is None) or (
            tag == "object" and "data" in attributes
        ):
            continue
        child = node.first_child
        if skips_content(tag, attributes):
            summary = next((one for one in node.iter() if one.tag == "summary"), None) if tag == "details" else None
            child = None if summary is None else summary.first_child
            if is_block:
                pieces.append(_BLOCK)
            if summary is not None:
                stack.append((child, _BLOCK, unseen, transform))
            continue
        if is_block and not unseen & _NO_TEXT_HERE:
            pieces.append(_BLOCK)
            stack.append((child, _BLOCK, unseen, transform))
        elif is_atom:
            pieces.append(_OPEN)
            stack.append((child, _CLOSE, unseen, transform))
        else:
            stack.append((child, "", unseen, transform))


_FOREIGN = frozenset({"svg", "math"})
_TELLING = frozenset({"style", "hidden"})
_TOLD = BLOCKS | _ATOMS | NOT_RENDERED | _FOREIGN | _SHOW_TEXT | {"img", "select", "dialog", "object", "details"}
"""Every other element passes its text on as it is."""


def _svg_label(node: LexborNode, attributes: dict[str, str | None]) -> str:
    label = attributes.get("aria-label")
    if label:
        return label
    title = node.css_first("title")
    return "" if title is None else title.text()
