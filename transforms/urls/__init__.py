"""URL identity: when are two spellings the same URL to the web? WHATWG parsing, then RFC 3986 §6.2.2 equivalences only.

Here: resolving, identity, its hash and trace, for one URL and for columns of them. Not here: whether a link counts for
a target (`transforms.matching`), whether a URL may be fetched (`crawl`).
"""

from transforms.urls.batch import IDENTITY_COLUMNS, identify_many
from transforms.urls.identity import (
    MAX_IDENTITY_CHARS,
    NORMALIZATION_VERSION,
    Identity,
    UrlRefusal,
    identify,
    origin_of,
    url_hash,
)
from transforms.urls.normalization import CURRENT, Normalization
from transforms.urls.whatwg import resolve

__all__ = [
    "CURRENT",
    "IDENTITY_COLUMNS",
    "MAX_IDENTITY_CHARS",
    "NORMALIZATION_VERSION",
    "Identity",
    "Normalization",
    "UrlRefusal",
    "identify",
    "identify_many",
    "origin_of",
    "resolve",
    "url_hash",
]
