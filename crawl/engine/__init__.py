"""The crawl of one batch: gates, slots, exchanges, retries, commits, stop. Here: who waits for whom.

One grant of the frontier is one request, at most. A visit that needs another one (its origin's robots.txt first, the
next redirect hop, a retry) goes back into the frontier, at the origin that is asked next: no task ever sleeps on a
slot, and every hop passes every gate.

    crawl         the whole: wires the rooms, runs, stops
    context       what every room is handed
    loading       tasks into the frontier
    dispatch      grants to workers
    page_visits   one request of a page, gate by gate
    starting      the last moment before a request
    answers       what a response says of a page (pure)
    redirects     where a redirect leads
    robots_visits one request of a robots.txt
    backing_off   failures: retry, back off the origin, give up
    origins       what is known of origins: states, robots, suppressions, clocks
    results       from a visit to its one result
    commit_loop   results and clocks to the ports, in batches

Not here: what is allowed (`egress`, `robots`), when (`politeness`), durability (the ports).
"""

from crawl.engine.crawl import Crawl

__all__ = ["Crawl"]
