"""HTML → links, as a browser with scripts off would find them. Here: one page at a time, pure. Not here: processes and
deadlines (`crawl.parse_pool`), storage, matching (`transforms.matching`).
"""

from transforms.html.limits import ParseLimits
from transforms.html.links import LINK_COLUMNS, LinkRows
from transforms.html.page import AGENT, PARSER_VERSION, ParsedPage, manifest_id, parse_page
from transforms.html.snippet import Snippet, snippet
from transforms.html.tables import failed_page, manifest_tables

__all__ = [
    "AGENT",
    "LINK_COLUMNS",
    "PARSER_VERSION",
    "LinkRows",
    "ParseLimits",
    "ParsedPage",
    "Snippet",
    "failed_page",
    "manifest_id",
    "manifest_tables",
    "parse_page",
    "snippet",
]
