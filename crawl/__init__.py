"""Bytes off the network, safely: egress gate, robots, politeness, fetch, outcomes.

Here: everything that opens a socket to somebody else's server. Not here: databases, object stores, Dagster (they are
handed in behind the small protocols of `crawl.ports`).
"""
