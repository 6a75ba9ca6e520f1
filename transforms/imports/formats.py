"""The exports that people have, known by their headings. Here: the tables and how headings compare.
Not here: finding the heading line in a file (`transforms.imports.layout`).

Headings are compared without case, punctuation and spacing (`Source url`, `source_url` and `Source URL` are one), each
column is found by name, and any column but the source page may be missing. Sources: exports seen in the wild, listed in
the project's notes; the older spellings are those of earlier versions of the same exports.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum


class Provider(StrEnum):
    """Which export a file is. The value is stored as the ledger's `provider`."""

    AHREFS = "ahrefs"
    SEMRUSH = "semrush"
    MAJESTIC = "majestic"
    SEARCH_CONSOLE = "search_console"
    BING = "bing"
    MOZ = "moz"
    SCREAMING_FROG = "screaming_frog"
    GENERIC = "generic"
    URL_LIST = "url_list"


@dataclass(frozen=True)
class Format:
    """One export. Headings are normalised; the first that a file has is its column."""

    provider: Provider
    label: str
    source: tuple[str, ...]
    target: tuple[str, ...]
    marks: frozenset[str] = frozenset()
    """Headings that tell this export from others with the same source and target headings."""
    needs: int = 0
    """How many of the marks must be there."""
    kind: tuple[str, ...] = ()
    """Column that says what sort of reference a row is."""
    not_links: frozenset[str] = frozenset()
    """Values of that column (normalised) that are no links."""


def normalise(heading: str) -> str:
    """A heading as it is compared: lower case, words of letters and digits, single spaces."""
    return re.sub(r"[\W_]+", " ", heading.casefold()).strip()


def _marks(text: str) -> frozenset[str]:
    return frozenset(normalise(part) for part in text.split(","))


FORMATS: tuple[Format, ...] = (
    Format(
        Provider.AHREFS,
        "Ahrefs backlinks",
        ("referring page url",),
        ("target url", "link url"),
        _marks(
            "Referring page title,Domain rating,UR,URL rating,Domain traffic,Referring domains,Linked domains,"
            "Page traffic,Keywords,Left context,Right context,TextPre,TextPost,Link Anchor,Redirect Chain URLs,Is spam,"
            "Lost status,Drop reason,Discovered status,Links in group"
        ),
        needs=1,
    ),
    Format(
        Provider.SEMRUSH,
        "Semrush backlinks",
        ("source url",),
        ("target url",),
        _marks(
            "Page ascore,Source title,Internal links,Sitewide,New link,Lost link,Frame,Form,Page score,Domain score"
        ),
        needs=2,
    ),
    Format(
        Provider.MAJESTIC,
        "Majestic backlinks",
        ("source url",),
        ("target url",),
        _marks(
            "Source Crawl Date,Source First Found Date,FlagNoFollow,FlagImageLink,FlagRedirect,FlagFrame,FlagOldCrawl,"
            "FlagAltText,FlagMention,SourceCitationFlow,SourceTrustFlow,TargetCitationFlow,TargetTrustFlow"
        ),
        needs=1,
    ),
    Format(
        Provider.SEARCH_CONSOLE,
        "Google Search Console latest links",
        ("linking page",),
        (),
        _marks("Last crawled"),
    ),
    Format(
        Provider.MOZ,
        "Moz inbound links",
        ("url", "source url"),
        ("target url",),
        _marks(
            "Page Authority,Domain Authority,Spam Score,PA,DA,Link Equity,Origin,"
            "Number of Domains Linking to this Page,Number of Domains Linking to Domain,Linking Domains"
        ),
        needs=1,
    ),
    Format(
        Provider.SCREAMING_FROG,
        "Screaming Frog inlinks",
        ("source", "from"),
        ("destination", "to"),
        _marks("Size Bytes,Alt Text,Status Code,Follow,Rel,Path Type,Link Path,Link Position,Link Origin"),
        needs=2,
        kind=("type",),
        not_links=frozenset({"image", "img", "css", "javascript", "js", "flash", "swf", "media", "pdf", "other"}),
    ),
    # Bing's three headings are also anybody's: only these three, in this order, make it Bing.
    Format(
        Provider.BING,
        "Bing Webmaster Tools backlinks",
        ("source url",),
        ("target url",),
        _marks("Anchor text"),
        needs=1,
    ),
    Format(
        Provider.GENERIC,
        "table with headings",
        (
            "source url",
            "source page",
            "source",
            "referring page url",
            "referring url",
            "referring page",
            "referrer url",
            "referrer",
            "linking page",
            "linking url",
            "backlink url",
            "backlink",
            "link from",
            "from url",
            "url from",
            "from",
            "page url",
            "page",
            "url",
            "link",
            "links",
            "urls",
        ),
        (
            "target url",
            "target page",
            "target",
            "destination url",
            "destination",
            "link url",
            "link to",
            "linked url",
            "linked page",
            "landing page",
            "to url",
            "url to",
            "to",
        ),
        _marks("anchor text,anchor,nofollow,rel,first seen,last seen"),
    ),
)

SOURCE_HEADINGS = "source_url (or “Referring page URL”, “Source url”, “Linking page”, “Source”)"
TARGET_HEADINGS = "target_url (or “Target URL”, “Destination”)"


def find(headings: list[str], wanted: tuple[str, ...]) -> list[int]:
    """Columns that bear the first of the wanted names that occurs at all (more than one: a duplicate heading)."""
    for name in wanted:
        columns = [i for i, heading in enumerate(headings) if heading == name]
        if columns:
            return columns
    return []


def match(headings: list[str]) -> Format | None:
    """The export that has these (normalised) headings, or None when no column can be the source page."""
    present = set(headings)
    for form in FORMATS:
        if not find(headings, form.source) or len(present & form.marks) < form.needs:
            continue
        if form.provider is Provider.BING and headings != ["source url", "anchor text", "target url"]:
            continue
        if form.provider is Provider.SCREAMING_FROG and not find(headings, form.target):
            continue
        if form.provider is Provider.SEARCH_CONSOLE and len(present) > 2:
            continue
        return form
    return None
