"""The identity of a URL. Here: the rules and their result. Not here: parsing (`whatwg`), the trace's wording (`trace`).

Beyond the WHATWG serialisation only these are folded, each provably the same resource:
percent-encoded *unreserved* characters are decoded and hex digits upper-cased (RFC 3986 §6.2.2.1, §6.2.2.2), the
fragment is dropped (never sent), one trailing dot of the host is dropped (DNS root). Never: `%2F %23 %25 %3F %26`
decoded, `//` merged, parameters sorted or dropped, path case folded, a slash stripped, an empty `?` lost.
"""

from __future__ import annotations

import hashlib
import ipaddress
import re
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache

from transforms.registrable import SuffixList, suffixes
from transforms.urls.hosts import host_flags
from transforms.urls.trace import trace
from transforms.urls.whatwg import resolve

NORMALIZATION_VERSION = 1
"""Part of every identity's hash. A change of rules is a new version, a migration that reads both (`backlinks identities
migrate`), and a new `transforms.html.PARSER_VERSION`: manifests hold identities."""

MAX_IDENTITY_CHARS = 2048
_MAX_HOST_CHARS = 253
_MAX_LABEL_CHARS = 63

_HTTP = re.compile(
    r"(https?)://(?:([^/?#@]*)@)?(\[[0-9a-f:.]*\]|[^:/?#]*)(?::([0-9]+))?(/[^?#]*)(?:\?([^#]*))?(?:#.*)?", re.DOTALL
)
"""Splits a WHATWG serialisation with an http(s) scheme: scheme, userinfo, host, port, path, query."""
_TRIPLET = re.compile("%[0-9A-Fa-f]{2}")
_STRAY_PERCENT = re.compile("%(?![0-9A-Fa-f]{2})")
_UNRESERVED = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")
_HEX = frozenset("0123456789ABCDEFabcdef")
_SPELLING = {
    spelled: (chr(byte) if chr(byte) in _UNRESERVED else f"%{byte:02X}")
    for byte in range(256)
    for spelled in (
        f"%{byte:02X}",
        f"%{byte:02x}",
        f"%{byte:02X}"[:2] + f"{byte:02x}"[1],
        f"%{byte:02x}"[:2] + f"{byte:02X}"[1],
    )
}


class UrlRefusal(StrEnum):
    """Why a URL has no identity."""

    BAD_URL = "bad_url"  # does not parse (WHATWG failure), or is relative and there is no base
    BAD_BASE = "bad_base"  # the base does not parse
    BAD_HOST = "bad_host"  # an empty label, a label over 63 or a name over 253 characters: no such name in DNS
    TOO_LONG = "too_long"  # the identity would exceed 2,048 characters
    SCHEME_MAILTO = "scheme_mailto"
    SCHEME_TEL = "scheme_tel"
    SCHEME_JAVASCRIPT = "scheme_javascript"
    SCHEME_DATA = "scheme_data"
    SCHEME_BLOB = "scheme_blob"
    SCHEME_ABOUT = "scheme_about"
    SCHEME_FILE = "scheme_file"
    SCHEME_FTP = "scheme_ftp"
    SCHEME_OTHER = "scheme_other"  # neither http nor https


_SCHEME_REFUSALS = {
    refusal.value.removeprefix("scheme_"): refusal for refusal in UrlRefusal if refusal.value.startswith("scheme_")
}


@dataclass(frozen=True, slots=True)
class Identity:
    """What is known of one URL. `identity` is None exactly when `reason` is not None; then only `raw`, `resolved`,
    `rules` and, when it parsed, `scheme` say anything."""

    raw: str
    resolved: str | None
    """WHATWG serialisation, fragment included; None when it does not parse."""
    identity: str | None = None
    """ASCII, at most 2,048 characters, no fragment. Userinfo is kept: it makes another URL (the crawler refuses it)."""
    reason: UrlRefusal | None = None
    scheme: str | None = None
    host: str | None = None
    """ASCII; IPv6 in brackets; no trailing dot."""
    port: int | None = None
    """None: the scheme's default."""
    path: str | None = None
    query: str | None = None
    """Without `?`; the empty string for an empty query, None for none."""
    origin: str | None = None
    registrable_domain: str | None = None
    """None for an IP address and for a host that is itself a public suffix. For a key that is always there: `site`."""
    public_suffix: str | None = None
    is_ip: bool = False
    flags: tuple[str, ...] = ()
    """ip, idn, mixed_script, emoji, underscore, single_label, credentials, public_suffix_host."""
    rules: tuple[str, ...] = ()
    """Every rule that changed the spelling, in the order in which they apply (`transforms.urls.trace`)."""

    @property
    def ok(self) -> bool:
        return self.identity is not None

    @property
    def site(self) -> str | None:
        """The registrable domain, else the host: what is hashed into buckets (`transforms.windows.bucket_of`)."""
        return self.registrable_domain or self.host

    @property
    def hash(self) -> bytes | None:
        return None if self.identity is None else url_hash(self.identity)


def url_hash(identity: str, version: int = NORMALIZATION_VERSION) -> bytes:
    """`urls.url_hash`: SHA-256 over `url:v<version>:` and the identity. 32 bytes."""
    return hashlib.sha256(b"url:v%d:%b" % (version, identity.encode())).digest()


def origin_of(identity: str) -> str:
    """`scheme://host[:port]` of an identity. Raises `ValueError` for what is not an identity."""
    parts = _HTTP.fullmatch(identity)
    if parts is None:
        raise ValueError(f"not a URL identity: {identity!r}")
    scheme, _, host, port = parts.group(1, 2, 3, 4)
    return f"{scheme}://{host}:{port}" if port else f"{scheme}://{host}"


def normalise_percent(text: str) -> str:
    """RFC 3986 §6.2.2.1 and §6.2.2.2: unreserved characters decoded, hex digits upper-cased.

    A stray `%` stays as it is. Next to one, a character is not decoded when that would make a triplet which was not
    there (`%%341` must not become `%41`), so that the function is idempotent.
    """
    if "%" not in text:
        return text
    if _STRAY_PERCENT.search(text) is None:
        return _TRIPLET.sub(lambda match: _SPELLING[match.group()], text)

    def careful(match: re.Match[str]) -> str:
        spelled = _SPELLING[match.group()]
        if spelled in _HEX and (text[: match.start()].endswith("%") or _open_triplet(text, match.start())):
            return match.group().upper()
        return spelled

    previous = None
    while previous != text:
        previous, text = text, _TRIPLET.sub(careful, text)
    return text


def _open_triplet(text: str, end: int) -> bool:
    """`text[:end]` ends with a stray `%` and one hex digit (spelled plainly), which a further digit would complete."""
    if end < 2 or text[end - 1] not in _HEX or text[end - 2] != "%":
        return False
    return _STRAY_PERCENT.match(text, end - 2) is not None


def identify(raw: str, base: str | None = None) -> Identity:
    """The identity of a URL as written (`raw`), resolved against `base` (an absolute URL) when given. Never raises."""
    resolved = resolve(raw, base)
    if resolved is None:
        bad_base = base is not None and resolve(base) is None
        return Identity(raw, None, reason=UrlRefusal.BAD_BASE if bad_base else UrlRefusal.BAD_URL)
    found = from_resolved(raw, resolved)
    object.__setattr__(found, "rules", trace(raw, base, resolved, found.identity))
    return found


def from_resolved(raw: str, resolved: str) -> Identity:
    """The identity of a WHATWG serialisation, without a trace (that costs more than the rest together)."""
    return Identity(raw, resolved, *split_resolved(resolved))


Parts = tuple[
    str | None,
    UrlRefusal | None,
    str | None,
    str | None,
    int | None,
    str | None,
    str | None,
    str | None,
    str | None,
    str | None,
    bool,
    tuple[str, ...],
]
"""Fields `identity` to `flags` of `Identity`, in order."""


def split_resolved(resolved: str) -> Parts:
    """As `from_resolved`, as a plain tuple: for columns of URLs."""
    parts = _HTTP.fullmatch(resolved)
    if parts is None:
        scheme = resolved.partition(":")[0]
        return _refused(_SCHEME_REFUSALS.get(scheme, UrlRefusal.SCHEME_OTHER), scheme)
    scheme, userinfo, host, port, path, query = parts.groups()
    facts = host_facts(host, suffixes())
    if facts is None:
        return _refused(UrlRefusal.BAD_HOST, scheme)
    host, is_ip, domain, suffix, flags = facts
    origin = f"{scheme}://{host}:{port}" if port else f"{scheme}://{host}"
    if "%" in resolved:
        path = normalise_percent(path)
        query = query and normalise_percent(query)
    rest = path if query is None else f"{path}?{query}"
    if userinfo:
        flags = (*flags, "credentials")
        identity = f"{scheme}://{normalise_percent(userinfo)}@{origin[len(scheme) + 3 :]}{rest}"
    else:
        identity = origin + rest
    if len(identity) > MAX_IDENTITY_CHARS:
        return _refused(UrlRefusal.TOO_LONG, scheme)
    return identity, None, scheme, host, int(port) if port else None, path, query, origin, domain, suffix, is_ip, flags


def _refused(reason: UrlRefusal, scheme: str) -> Parts:
    return None, reason, scheme, None, None, None, None, None, None, None, False, ()


HostFacts = tuple[str, bool, str | None, str | None, tuple[str, ...]]
"""Host without its trailing dot, is it an IP address, registrable domain, public suffix, flags."""


@lru_cache(200_000)
def host_facts(host: str, using: SuffixList) -> HostFacts | None:
    """What is known of a host as WHATWG serialises it; None when no such name can be in DNS."""
    if host.startswith("["):
        return host, True, None, None, ("ip",)
    if host[-1:].isdigit() and _is_ipv4(host):
        return host, True, None, None, ("ip",)
    if host.endswith("."):
        host = host[:-1]
    if len(host) > _MAX_HOST_CHARS or any(not 0 < len(label) <= _MAX_LABEL_CHARS for label in host.split(".")):
        return None
    domain, suffix = using.look_up(host)
    return host, False, domain, suffix, host_flags(host, is_suffix=domain is None)


def _is_ipv4(host: str) -> bool:
    try:
        ipaddress.IPv4Address(host)
    except ValueError:
        return False
    return True
