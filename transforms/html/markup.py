"""What the tree builder has to be told first. Here: rewrites after which Lexbor builds the standard's tree. Not here: parsing."""

from __future__ import annotations

import re

_RAW = rb"(?P<raw><!--.*?-->|<(?P<of>script|style|title|textarea|xmp|iframe|noembed|noframes)\b[^>]*>.*?</(?P=of))"
_IMAGE = re.compile(_RAW + rb"|<image(?=[\t\n\f\r />])", re.IGNORECASE | re.DOTALL)


def for_lexbor(markup: bytes) -> bytes:
    """The markup with `image` outside of SVG written as `img` (HTML §13.2.6.4.7).

    Lexbor drops one that a table fosters, and with it the link that is opened again around it.
    """
    if b"<image" in markup and b"<svg" not in markup:
        markup = _IMAGE.sub(lambda match: match["raw"] or b"<img", markup)
    return markup
