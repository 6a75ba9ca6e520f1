"""robots.txt by RFC 9309. Here: reading a file and judging a URL (`rules`), and what is remembered of an origin's file
(`book`). Not here: fetching it (`crawl.engine.robots_visits` does, as one more polite request).

The evaluator is our own: Protego compares percent-encodings of rule and URL differently, loses an empty query and keeps
the first of equal groups; fixing that from outside would be more code than the few pages of the standard.
"""

from crawl.robots.book import RobotsBook, RobotsState, RulesCache
from crawl.robots.rules import MAX_ROBOTS_BYTES, Robots, Verdict, parse_robots

__all__ = ["MAX_ROBOTS_BYTES", "Robots", "RobotsBook", "RobotsState", "RulesCache", "Verdict", "parse_robots"]
