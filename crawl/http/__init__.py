"""One HTTP exchange, bounded in every direction. Here: the interface (`exchange`), content decoding under a cap
(`decode`), and the client: h11 over trio with a small pool per origin (`client`). Not here: redirects, robots,
politeness, retries; a caller asks for one hop and gets one answer.
"""

from crawl.http.client import H11Client
from crawl.http.exchange import ExchangeFailed, Exchanger, Limits, Request, Response

__all__ = ["ExchangeFailed", "Exchanger", "H11Client", "Limits", "Request", "Response"]
