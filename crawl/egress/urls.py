"""What a URL must look like to be contacted: gates 1 and 2 without any network. Here: pure functions. Not here: URL
identity (`transforms.urls`), resolving.

Parsing is the WHATWG's (ada-url), so that every spelling of an address (decimal, octal, hexadecimal, short, full-width
digits and dots) has become a dotted one before the address policy sees it.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from functools import lru_cache

import ada_url

from transforms.reasons import Reason

DEFAULT_PORTS = {"http": 80, "https": 443}
_MAX_CACHED_CHARS = 2048
"""Longer ones are rare and other people's choice: 4,096 of them would be many megabytes."""


@dataclass(frozen=True, slots=True)
class Target:
    """A URL that may be contacted if its addresses may be. `path` is the request target, with the query."""

    url: str
    scheme: str
    host: str
    port: int
    path: str
    is_ip: bool

    @property
    def origin(self) -> str:
        """`scheme://host[:port]`, the unit of politeness and robots.txt; spelled as by `transforms.urls.origin_of`: the
        final dot of a name makes no other server of it."""
        return f"{self.scheme}://{self.host_header}" if self.host[-1] != "." else self._without_dot()

    def _without_dot(self) -> str:
        port = "" if DEFAULT_PORTS[self.scheme] == self.port else f":{self.port}"
        return f"{self.scheme}://{self.host.rstrip('.')}{port}"

    @property
    def host_header(self) -> str:
        return self.host if DEFAULT_PORTS[self.scheme] == self.port else f"{self.host}:{self.port}"


def inspect_url(url: str, allowed_ports: Collection[int]) -> Target | tuple[Reason, str]:
    """The parts of `url`, or the reason code and sentence of the gate that refuses it.

    Fragment is dropped. An empty query (`/a?`) is kept: it is another URL than `/a`.
    """
    if len(url) > _MAX_CACHED_CHARS:
        return _inspect(url, tuple(allowed_ports))
    return _inspect_cached(url, tuple(allowed_ports))


def _inspect(url: str, allowed_ports: tuple[int, ...]) -> Target | tuple[Reason, str]:
    try:
        parsed = ada_url.URL(url)
    except (ValueError, UnicodeError):
        return Reason.BAD_URL, "The URL does not parse."
    # Each property of a parsed URL is a call into a library: the serialisation has them all (WHATWG URL §4.5).
    href = parsed.href.split("#", 1)[0]
    scheme = href.partition(":")[0]
    if scheme not in DEFAULT_PORTS:
        return Reason.BAD_SCHEME, f"Only http and https are fetched, not {scheme[:40]!r}."
    path_at = href.index("/", len(scheme) + 3)
    authority = href[len(scheme) + 3 : path_at]
    if "@" in authority:
        return Reason.URL_CREDENTIALS, "The URL carries a user name or password."
    host, colon, digits = authority.rpartition(":")
    if not colon or digits.endswith("]"):
        host, digits = authority, ""
    port = int(digits) if digits else DEFAULT_PORTS[scheme]
    if port not in allowed_ports:
        return Reason.BAD_PORT, f"Port {port} is not one that web pages are fetched from."
    if not host:
        return Reason.BAD_URL, "The URL has no host."
    is_ip = host[0] == "[" or (host[-1].isdigit() and parsed.host_type != ada_url.HostType.DEFAULT)
    bare = host.rstrip(".")
    if not is_ip and (bare == "localhost" or bare.endswith(".localhost")):
        return Reason.BLOCKED_NETWORK, "localhost is this machine."
    if not is_ip and (not bare or ".." in host or len(bare) > 253 or any(len(label) > 63 for label in bare.split("."))):
        return Reason.BAD_URL, "The host is not a name that DNS can hold."
    return Target(href, scheme, host, port, href[path_at:], is_ip)


_inspect_cached = lru_cache(maxsize=4096)(_inspect)
"""A URL is looked at two or three times within a visit."""
