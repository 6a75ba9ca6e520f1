"""Pages that are served as XML (`application/xhtml+xml`). Here: their markup rewritten so that a parser of HTML builds what
a browser's XML parser does, as far as links go. Not here: their encoding (`charset.sniff_xml`), well-formedness.

XML knows empty-element tags (XML §3.1): `<script src="x"/>` is over at once, while HTML would take the rest of the page for
script and miss every link; and CDATA sections (§2.7) are text. Where a page is not well-formed a browser stops; here it is read
on: a link may still be found on it. Left as HTML has it: names in upper case, and elements in what HTML takes for text only
(`<style><a>`), which no valid page has.
"""

from __future__ import annotations

import html
import re

_VOID = frozenset(b"area base br col embed hr img input link meta param source track wbr".split())
_SPACES = bytes.maketrans(b"\t\n\r", b"   ")
_TOKEN = re.compile(
    rb"<!\[CDATA\[(?P<cdata>.*?)(?:\]\]>|\Z)|<!--.*?(?:-->|\Z)|<\?.*?(?:\?>|\Z)"
    rb"|<(?P<name>[A-Za-z_][^\t\n\r />\"'<]*)(?:[^<>\"'/]|/(?!>)|\"[^\"<]*\"|'[^'<]*')*+(?P<empty>/)?>",
    re.DOTALL,
)
"""What is not a tag is passed over whole; a value holds no `<` (§3.1), so a broken tag costs no more than up to the next."""


def as_html(markup: bytes) -> bytes:
    """UTF-8 XHTML as HTML: empty elements get an end tag, CDATA sections become text."""
    return _TOKEN.sub(_spell, markup)


def _spell(match: re.Match[bytes]) -> bytes:
    cdata, name = match["cdata"], match["name"]
    if cdata is not None:
        return html.escape(cdata.decode("utf-8", "replace"), quote=False).encode()
    if name is None:
        return match.group()
    tag = match.group().replace(b"\r\n", b" ").translate(_SPACES)  # values (§3.3.3); elsewhere in a tag they are alike
    if match["empty"] is None or name.lower() in _VOID:
        return tag
    return tag[:-2] + b"></" + name + b">"
