"""Which IP addresses are somebody's public web server. Here: the policy, as data. Not here: resolving, connecting.

Source: the IANA special-purpose address registries of IPv4 and IPv6 (RFC 6890 and its updates). `ipaddress.is_global`
is not enough: on Python 3.11 it says True of NAT64, 6to4, IPv4-compatible forms, multicast and site-local addresses. Of
IPv6 only the allocated unicast block 2000::/3 passes, minus its special ranges; every form that embeds an IPv4 address
(mapped, compatible, translated, NAT64, 6to4, Teredo, ISATAP) is refused whatever it embeds, since no name of a public
web server resolves to one and a relay would carry us to an address that we did not check.
"""

from __future__ import annotations

from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

_V4: tuple[tuple[str, str], ...] = (
    ("0.0.0.0/8", "this network"),
    ("10.0.0.0/8", "private"),
    ("100.64.0.0/10", "shared address space of carriers"),
    ("127.0.0.0/8", "loopback"),
    ("168.63.129.16/32", "metadata service of a cloud"),
    ("169.254.0.0/16", "link-local, metadata services"),
    ("172.16.0.0/12", "private"),
    ("192.0.0.0/24", "IETF protocol assignments"),
    ("192.0.2.0/24", "documentation"),
    ("192.31.196.0/24", "AS112"),
    ("192.52.193.0/24", "AMT"),
    ("192.88.99.0/24", "6to4 relays"),
    ("192.168.0.0/16", "private"),
    ("192.175.48.0/24", "AS112"),
    ("198.18.0.0/15", "benchmarking"),
    ("198.51.100.0/24", "documentation"),
    ("203.0.113.0/24", "documentation"),
    ("224.0.0.0/4", "multicast"),
    ("240.0.0.0/4", "reserved, broadcast"),
)
_V6_PUBLIC = IPv6Network("2000::/3")
_V6: tuple[tuple[str, str], ...] = (
    # Inside 2000::/3
    ("2001::/23", "IETF protocol assignments, Teredo, ORCHID, benchmarking"),
    ("2001:db8::/32", "documentation"),
    ("2002::/16", "6to4"),
    ("2620:4f:8000::/48", "AS112"),
    ("3fff::/20", "documentation"),
    # Outside it: refused anyway, named for the sentence a person reads
    ("::1/128", "loopback"),
    ("::/128", "unspecified"),
    ("::ffff:0:0/96", "IPv4-mapped"),
    ("::ffff:0:0:0/96", "IPv4-translated"),
    ("::/96", "IPv4-compatible"),
    ("64:ff9b::/96", "NAT64"),
    ("64:ff9b:1::/48", "NAT64, local use"),
    ("100::/64", "discard"),
    ("100:0:0:1::/64", "dummy prefix"),
    ("5f00::/16", "segment routing"),
    ("fc00::/7", "unique local"),
    ("fe80::/10", "link-local"),
    ("fec0::/10", "site-local"),
    ("ff00::/8", "multicast"),
)
_V4_REFUSED = [(ip_network(net), why) for net, why in _V4]
_V6_REFUSED = [(ip_network(net), why) for net, why in _V6]
_ISATAP = (0x00005EFE, 0x02005EFE)


@lru_cache(maxsize=8192)
def refusal_of(address: str) -> str | None:
    """Why `address` (text form, as a resolver gives it) may not be contacted; None when it is public.

    Anything that is not an IP address in a usual text form is refused, scoped addresses (`fe80::1%eth0`) included.
    """
    try:
        ip = ip_address(address)
    except ValueError:
        return "not an IP address"
    if isinstance(ip, IPv4Address):
        return _first(ip, _V4_REFUSED)
    if ip.scope_id is not None:
        return "scoped"
    why = _first(ip, _V6_REFUSED)
    if why is None and ip not in _V6_PUBLIC:
        why = "not allocated as public unicast"
    if why is None and (int(ip) >> 32) & 0xFFFFFFFF in _ISATAP:
        why = "ISATAP"
    return why


def _first(ip: IPv4Address | IPv6Address, refused: list[tuple[IPv4Network | IPv6Network, str]]) -> str | None:
    return next((why for net, why in refused if ip in net), None)
