"""When may an origin be asked again, and who goes first. Here: the frontier (`frontier`), a pure data structure that is
told the time, and back-off arithmetic (`backoff`). Not here: waiting, sockets, the ledger.
"""

from crawl.politeness.backoff import backoff_s, parse_retry_after
from crawl.politeness.frontier import Entry, Frontier, Grant, State

__all__ = ["Entry", "Frontier", "Grant", "State", "backoff_s", "parse_retry_after"]
