"""What the tree builder has to be told first. Here: rewrites after which Lexbor builds the standard's tree. Not here: parsing."""

from __future__ import annotations

import re

# Whatever never ends swallows the rest, so that nothing is looked at twice.
_RAW = (
    rb"(?P<raw><!--.*?(?:-->|\Z)"
    rb"|<(?P<of>script|style|title|textarea|xmp|iframe|noembed|noframes)\b[^>]*(?:\Z|>.*?(?:</(?P=of)|\Z)))"
)
_IMAGE = re.compile(_RAW + rb"|<image(?=[\t\n\f\r />])", re.IGNORECASE | re.DOTALL)


def for_lexbor(markup: bytes) -> bytes:
    """The markup with `image` outside of SVG written as `img` (HTML §13.2.6.4.7).

    Lexbor drops one that a table fosters, and with it the link that is opened again around it.
    """
    if b"<image" in markup and b"<svg" not in markup:
        markup = _IMAGE.sub(lambda match: match["raw"] or b"<img", markup)
    return markup
