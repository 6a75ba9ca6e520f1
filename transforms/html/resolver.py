"""Resolving a page's references. Here: one page's base, quick ways for the common spellings, a cache over pages.

The quick ways only take what WHATWG parsing provably leaves unchanged (a test compares them with ada-url); everything
else goes through `transforms.urls`. Not here: which references a page has.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from transforms.registrable import suffixes
from transforms.urls.identity import MAX_IDENTITY_CHARS, UrlRefusal, host_facts, split_resolved, url_hash
from transforms.urls.whatwg import resolve


class Resolved(NamedTuple):
    resolved: str | None
    identity: str | None
    identity_hash: bytes | None
    refusal: str | None
    host: str | None
    registrable_domain: str | None


_CLEAN = re.compile(
    r"(?:https?)://(?P<host>(?:[a-z0-9_][a-z0-9_-]*\.)+[a-z][a-z0-9-]*)"
    r"(?P<path>/[A-Za-z0-9\-._~!$&()*+,;=:@/]*)?(?P<query>\?[A-Za-z0-9\-._~!$&()*+,;=:@/?]*)?"
)
_CLEAN_PATH = re.compile(r"/(?!/)[A-Za-z0-9\-._~!$&()*+,;=:@/]*(?:\?[A-Za-z0-9\-._~!$&()*+,;=:@/?]*)?")
_ORIGIN = re.compile(r"https?://[^/?#@\\]+(?=/)")
_SPECIAL = re.compile(r"[\x00-\x20]*(https?|ftp|file|wss?):", re.IGNORECASE)
_HAS_SCHEME = re.compile(r"[\x00-\x20]*[A-Za-z][A-Za-z0-9+.\-]*:")
_HIERARCHICAL = re.compile(r"[a-z][a-z0-9+.\-]*:/")
_CACHE_SIZE = 50_000

_REFUSED = Resolved(None, None, None, UrlRefusal.BAD_URL.value, None, None)
_absolute: dict[str, Resolved] = {}


class Resolver:
    """Resolves against one base. `encode_query`: how the page's encoding spells non-ASCII text of a query (or None)."""

    def __init__(self, base: str, encode_query: Callable[[str], str] | None = None) -> None:
        self.base = base
        self._encode_query = encode_query
        origin = _ORIGIN.match(base)
        self._origin = origin.group() if origin else None
        self._is_special = _SPECIAL.match(base) is not None

    def __call__(self, raw: str) -> Resolved:
        text = raw
        if raw[:1] == "/" and self._origin is not None and _CLEAN_PATH.fullmatch(raw):
            text = self._origin + raw
        known = _absolute.get(text)
        if known is not None:
            return known
        clean = _CLEAN.fullmatch(text)
        if clean is not None and "/." not in text and "xn--" not in text and len(text) < MAX_IDENTITY_CHARS:
            return _remember(text, _clean(text, clean))
        resolved = self.resolve(raw)
        if resolved is None:
            return _REFUSED
        if resolved != text:
            known = _absolute.get(resolved)
            if known is not None:
                return known
        return _remember(resolved, _from_resolved(resolved))

    def resolve(self, raw: str) -> str | None:
        """WHATWG serialisation of a reference, its query in the page's encoding (HTML §2.4.3 "encoding-parsing a URL")."""
        if self._encode_query is not None and "?" in raw and not raw.isascii():
            raw = self._with_encoded_query(raw, self._encode_query)
        return resolve(raw, self.base)

    def _with_encoded_query(self, raw: str, encode: Callable[[str], str]) -> str:
        scheme = _SPECIAL.match(raw)
        if scheme is None and (_HAS_SCHEME.match(raw) or not self._is_special):
            return raw
        if scheme is not None and scheme.group(1).lower().startswith("ws"):
            return raw
        before, mark, fragment = raw.partition("#")
        path, question, query = before.partition("?")
        return path + question + encode(query) + mark + fragment


def as_browser(resolved: str) -> str:
    """A WHATWG serialisation as Chromium spells it: it encodes `|` in paths, and `'` in every query, which the standard does not.

    The identity of a URL is made from the standard's spelling; this one is what a person sees in the browser.
    """
    if "|" not in resolved and "'" not in resolved:
        return resolved
    before, mark, fragment = resolved.partition("#")
    path, question, query = before.partition("?")
    if "|" in path and _HIERARCHICAL.match(path):
        path = path.replace("|", "%7C")
    return path + question + query.replace("'", "%27") + mark + fragment


def _clean(text: str, match: re.Match[str]) -> Resolved:
    host = match.group("host")
    facts = host_facts(host, suffixes())
    if match.group("path") is None:
        query = match.group("query")
        text = f"{text}/" if query is None else f"{text[: match.start('query')]}/{query}"
    if facts is None:
        return Resolved(text, None, None, UrlRefusal.BAD_HOST.value, None, None)
    return Resolved(text, text, url_hash(text), None, host, facts[2])


def _from_resolved(resolved: str) -> Resolved:
    identity, reason, _, host, _, _, _, _, domain, *_ = split_resolved(resolved)
    shown = as_browser(resolved)
    if identity is None:
        return Resolved(shown, None, None, None if reason is None else reason.value, None, None)
    return Resolved(shown, identity, url_hash(identity), None, host, domain)


def _remember(text: str, found: Resolved) -> Resolved:
    if len(text) <= MAX_IDENTITY_CHARS:
        if len(_absolute) >= _CACHE_SIZE:
            _absolute.clear()
        _absolute[text] = found
    return found
