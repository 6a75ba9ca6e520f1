"""The egress gate: may this URL be contacted, and at which checked address?

Here: what a URL may look like (`urls`), which addresses are public (`addresses`), resolving a name once (`resolver`),
and connecting to nothing but an address that was checked (`gate`, `network`). A library of its own: anything else that
fetches a URL which a user typed (a webhook) calls `EgressGate` too. Not here: robots, politeness, HTTP.
"""

from crawl.egress.addresses import refusal_of
from crawl.egress.gate import Admission, ConnectFailed, EgressGate, Refused
from crawl.egress.network import CountingNetwork, Network, TrioNetwork
from crawl.egress.resolver import DnsCache, Resolution, SystemResolver
from crawl.egress.urls import Target, inspect_url

__all__ = [
    "Admission",
    "ConnectFailed",
    "CountingNetwork",
    "DnsCache",
    "EgressGate",
    "Network",
    "Refused",
    "Resolution",
    "SystemResolver",
    "Target",
    "TrioNetwork",
    "inspect_url",
    "refusal_of",
]
