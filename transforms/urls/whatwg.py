"""Parsing and resolving as the WHATWG URL standard says (ada-url does the work). Here: raw text → serialisation.

Not here: what we make of it (`transforms.urls.identity`).
"""

from __future__ import annotations

import re

import ada_url

from transforms.urls.idn import valid_labels

_HOST = re.compile(r"(?:https?|wss?|ftp|file)://(?:[^/?#@]*@)?([^/?#:]*)")


def scalar(text: str) -> str:
    """Lone surrogates become U+FFFD, as a browser's conversion to a scalar value string does (Infra §4.7)."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def resolve(raw: str, base: str | None = None) -> str | None:
    """The URL's WHATWG serialisation (ASCII), resolved against `base` when given; None when either does not parse.

    Source: WHATWG URL, §4.4 "URL parsing" and §4.5 "URL serializing". The fragment is kept.
    """
    try:
        url = ada_url.normalize_url(raw) if base is None else ada_url.join_url(base, raw)
        if "xn--" in url:
            host = _HOST.match(url)
            if host is not None and "xn--" in host.group(1) and not valid_labels(host.group(1)):
                return None
        return url
    except UnicodeEncodeError:
        return resolve(scalar(raw), None if base is None else scalar(base))
    except ValueError:
        return None
