"""A body and its headers → a page row and link rows. Here: the order of the steps. Not here: the steps (their own modules),
storage, killing what takes too long (`crawl.parse_pool`).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from selectolax.lexbor import LexborHTMLParser, LexborNode

from transforms.challenges import MAX_LINKS, find_marker
from transforms.html.charset import Charset, decode, essence, query_encoder, sniff, sniff_xml, strip_bom
from transforms.html.context import is_foreign
from transforms.html.headers import HeaderLink, parse_links
from transforms.html.limits import ParseLimits, cut
from transforms.html.links import SELECTOR, LinkCollector, LinkRows, collect_element, collect_headers, rel_tokens
from transforms.html.resolver import Resolver, as_browser
from transforms.html.robots import combine, header_directives, split_directives
from transforms.html.text import fold
from transforms.html.xhtml import as_html
from transforms.placeholders import find_placeholder
from transforms.reasons import Reason
from transforms.schemas.manifests import MANIFEST_SCHEMA_VERSION

PARSER_VERSION = "5"
"""Part of every manifest's identity. Raised whenever the same bytes could give other rows."""

AGENT = "BacklinksMonitor"

_SHELL_TEXT_CHARS = 300
_SHELL_LINKS = 3
_SHELL_BYTES = 500_000
"""Where a shell's empty element is looked for: what follows is its data."""
_LONG_TEXT_CHARS = 20_000
_MOUNT = re.compile(
    rb"<(?:div|main|section|app-root|my-app)\b[^>]{0,400}?(?:\bid\s{0,9}=\s{0,9}[\"']?(?:root|app|__next|__nuxt|___gatsby|svelte|main-app|app-root|react-root|q-app|ember-app|mount)\b[^>]{0,400})?"
    rb">\s{0,400}(?:<!--[^>]{0,400}-->\s{0,400}){0,9}(?:loading[^<]{0,20})?</(?:div|main|section|app-root|my-app)>",
    re.IGNORECASE,
)
_NEEDS_SCRIPT = re.compile(
    rb"<noscript[^>]{0,400}>(?:(?!</noscript).){0,600}?(?:javascript|java script|enable js)", re.IGNORECASE | re.DOTALL
)
_DOCTYPE = re.compile(
    rb"(?:\xef\xbb\xbf)?(?:[\t\n\f\r ]++|<!--.*?-->|<\?[^>]*+>)*+<!doctype\s", re.IGNORECASE | re.DOTALL
)


@dataclass(slots=True)
class ParsedPage:
    """`page`: the columns of `PAGE_MANIFESTS` that parsing decides (without source_url_id, manifest_id, content_hash).
    `links`: rows in document order, headers last."""

    page: dict[str, Any]
    links: LinkRows = field(default_factory=LinkRows)


def manifest_id(
    content_hash: bytes,
    document_url: str,
    *,
    content_type: str | None = None,
    x_robots_tag: Sequence[str] = (),
    link_header: Sequence[str] = (),
    refresh_header: str | None = None,
) -> bytes:
    """Identity of a manifest (16 bytes): whatever could change its rows. Equal id, equal manifest: it can be reused."""
    digest = hashlib.sha256()
    parts = [
        content_hash.hex(), document_url, content_type or "", *x_robots_tag, "", *link_header, "", refresh_header or "",
        PARSER_VERSION, str(MANIFEST_SCHEMA_VERSION),
    ]  # fmt: skip
    for part in parts:
        encoded = part.encode("utf-8", "surrogatepass")
        digest.update(b"%d:" % len(encoded))
        digest.update(encoded)
    return digest.digest()[:16]


def parse_page(
    body: bytes,
    *,
    document_url: str,
    content_type: str | None = None,
    x_robots_tag: Sequence[str] = (),
    link_header: Sequence[str] = (),
    refresh_header: str | None = None,
    limits: ParseLimits | None = None,
    agent: str = AGENT,
    body_truncated: bool = False,
    at: datetime | None = None,
) -> ParsedPage:
    """What a browser with scripts off finds on a page.

    `document_url`: absolute URL that the body came from, after redirects. `agent`: product token that robots directives may
    name. `body_truncated`: the fetch kept only a part. `at`: when it was fetched, for `unavailable_after`. Never raises for
    any bytes; takes CPU time without bound for a few hostile shapes: run it in `crawl.parse_pool` on bodies from outside.
    """
    limits = limits or ParseLimits()
    full_size = len(body)
    body, limit = cut(body, limits)
    markup, charset, had_errors = read_markup(body, content_type)
    tree = LexborHTMLParser(markup)

    elements: list[tuple[LexborNode, str, dict[str, str | None]]] = [
        (node, node.tag or "", node.attributes) for node in tree.css(SELECTOR)
    ]
    encode = None if charset.name == "UTF-8" else query_encoder(charset.name)
    document = Resolver(document_url, encode)
    base_url = base_of(elements, document)
    resolver = document if base_url == document_url else Resolver(base_url, encode)

    header_links = [link for link in parse_links(link_header) if link.rel and _is_own(link, document)]
    verdict = combine(_meta_robots(elements, agent), header_directives(x_robots_tag, agent), at)
    page_follow = (
        "nofollow_meta" if verdict.meta_nofollow else "nofollow_header" if verdict.header_nofollow else "follow"
    )

    collector = LinkCollector(resolver, page_follow, limits)
    canonical_raw: list[str] = []
    title: str | None = None
    for node, tag, attributes in elements:
        if tag in ("a", "area"):
            collector.clickable(node, tag, attributes)
        elif tag == "title":
            if title is None and not is_foreign(node):
                title = fold(node.text())
        elif tag != "base":
            collect_element(collector, node, tag, attributes)
            is_canonical = tag == "link" and "href" in attributes and "canonical" in rel_tokens(attributes.get("rel"))
            if is_canonical and not is_foreign(node):
                canonical_raw.append(attributes["href"] or "")
    collect_headers(collector, header_links, refresh_header, document)

    canonical_html, issues = _canonicals(canonical_raw, resolver, "html")
    header_canonicals = [link.target for link in header_links if "canonical" in link.rel]
    canonical_header, header_issues = _canonicals(header_canonicals, document, "header")
    issues += header_issues
    if canonical_html and canonical_header and canonical_html[0] != canonical_header[0]:
        issues.append("header_and_html_differ")

    text_chars, text_bytes = _visible_text(tree)
    is_truncated = body_truncated or limit is not None or collector.links.is_cut
    marker = find_marker(markup, text_chars) if collector.links.clickable <= MAX_LINKS else None
    is_shell = marker is None and _is_script_shell(markup, text_chars, collector.links.clickable)
    stand_in = None
    if marker is None:
        stand_in = find_placeholder(markup, title=title, text_chars=text_chars, links=collector.links.clickable)
    page: dict[str, Any] = {
        "document_url": document_url,
        "base_url": as_browser(base_url),
        "parser_version": PARSER_VERSION,
        "reason": (
            stand_in[0]
            if stand_in is not None
            else _reason(marker, is_shell, is_truncated, is_blank=text_chars == 0 and not collector.links.clickable)
        ).value,
        "title": title,
        "language": _language(tree, elements),
        "charset": charset.name,
        "charset_method": charset.method,
        "robots_directives": list(verdict.directives),
        "robots_indexable": verdict.indexable,
        "meta_nofollow": verdict.meta_nofollow,
        "header_nofollow": verdict.header_nofollow,
        "canonical_html": canonical_html,
        "canonical_header": canonical_header,
        "canonical_issues": issues,
        "is_truncated": is_truncated,
        "truncated_by": limit or ("links" if collector.links.is_cut else "body" if body_truncated else None),
        "parse_quality": _quality(markup, is_truncated, had_errors),
        "text_ratio": text_bytes / full_size if full_size else 0.0,
        "text_bytes": text_bytes,
        "link_count": collector.links.clickable,
        "is_script_shell": is_shell,
        "challenge": marker if stand_in is None else stand_in[1],
        "body_bytes": full_size,
    }
    return ParsedPage(page, collector.links)


def read_markup(body: bytes, content_type: str | None) -> tuple[bytes, Charset, bool]:
    """The body as UTF-8 HTML for the tree builder, the encoding it was in, and whether ill-formed sequences were replaced."""
    is_xml = essence(content_type) == "application/xhtml+xml"
    charset = sniff_xml(body, content_type) if is_xml else sniff(body, content_type)
    markup, had_errors = utf8(strip_bom(body, charset.name), charset.name)
    return as_html(markup) if is_xml else markup, charset, had_errors


def utf8(body: bytes, name: str) -> tuple[bytes, bool]:
    """The body as well-formed UTF-8 for the tree builder, and whether ill-formed sequences were replaced."""
    if name == "UTF-8":
        try:
            body.decode("utf-8")
        except UnicodeDecodeError:
            return body.decode("utf-8", "replace").encode(), True
        return body, False
    if body.isascii() and not name.startswith(("UTF-16", "ISO-2022", "replacement")):
        return body, False
    text = decode(body, name)
    return text.encode("utf-8", "surrogatepass"), "\ufffd" in text


def base_of(elements: list[tuple[LexborNode, str, dict[str, str | None]]], document: Resolver) -> str:
    """HTML §4.2.3: the first base element with an href; `data:`, `javascript:` and what does not parse count for nothing."""
    for node, tag, attributes in elements:
        if tag == "base" and "href" in attributes and not is_foreign(node):
            resolved = document.resolve(attributes["href"] or "")
            if resolved is None or resolved.startswith(("data:", "javascript:")):
                return document.base
            return resolved
    return document.base


def _meta_robots(elements: list[tuple[LexborNode, str, dict[str, str | None]]], agent: str) -> list[str]:
    names = ("robots", agent.lower())
    found: list[str] = []
    for _, tag, attributes in elements:
        if tag == "meta" and (attributes.get("name") or "").strip().lower() in names:
            found += split_directives(attributes.get("content") or "")
    return found


def _is_own(link: HeaderLink, document: Resolver) -> bool:
    """The link is about this document: no anchor, or one that resolves to it, not to a part of it (RFC 8288 §3.2)."""
    if link.anchor is None:
        return True
    resolved = document.resolve(link.anchor)
    return resolved is not None and resolved.removesuffix("#") == document.base.partition("#")[0]


def _canonicals(raws: Sequence[str], resolver: Resolver, where: str) -> tuple[list[str], list[str]]:
    """Resolved canonicals in order, and what is wrong with them."""
    found: list[str] = []
    issues: list[str] = []
    for raw in raws:
        if not raw.strip():
            issues.append(f"{where}_empty")
            continue
        one = resolver(raw)
        if one.resolved is None:
            issues.append(f"{where}_unparsable")
        elif one.identity is None:
            issues.append(f"{where}_not_http")
        else:
            found.append(one.resolved)
            if "#" in one.resolved:
                issues.append(f"{where}_fragment")
    if len(set(found)) > 1:
        issues.append(f"{where}_several")
    return found, list(dict.fromkeys(issues))


def _language(tree: LexborHTMLParser, elements: list[tuple[LexborNode, str, dict[str, str | None]]]) -> str | None:
    root = tree.root
    declared = root.attributes.get("lang") if root is not None else None
    if declared and declared.strip():
        return declared.strip()
    for _, tag, attributes in elements:
        if tag == "meta" and (attributes.get("http-equiv") or "").lower() == "content-language":
            content = (attributes.get("content") or "").strip()
            if content and "," not in content:
                return content.split()[0]
    return None


def _visible_text(tree: LexborHTMLParser) -> tuple[int, int]:
    """Characters that are not white space, and UTF-8 bytes, of the body's text without scripts, styles and the like.

    The characters decide only whether a page is next to empty: a long text is not looked at closely.
    """
    body = tree.body
    if body is None:
        return 0, 0
    text = body.text()
    size = len(text) if text.isascii() else len(text.encode("utf-8", "replace"))
    chars = len(text)
    unseen = [node.text() for node in body.css("script,style,textarea,noembed,noframes,iframe")]
    for piece in unseen:
        size -= len(piece) if piece.isascii() else len(piece.encode("utf-8", "replace"))
        chars -= len(piece)
    if chars < _LONG_TEXT_CHARS:
        chars = len("".join(text.split())) - sum(len("".join(piece.split())) for piece in unseen)
    return max(0, chars), max(0, size)


def _is_script_shell(markup: bytes, text_chars: int, links: int) -> bool:
    """Little text, next to no links, scripts, and an empty element for them to fill (or a plea to enable them)."""
    markup = markup[:_SHELL_BYTES]
    if text_chars > _SHELL_TEXT_CHARS or links > _SHELL_LINKS or b"<script" not in markup.lower():
        return False
    return _MOUNT.search(markup) is not None or _NEEDS_SCRIPT.search(markup) is not None


def _quality(markup: bytes, is_truncated: bool, had_errors: bool) -> str:
    """clean | repaired (bytes replaced, NULs, no doctype) | partial (truncated)."""
    if is_truncated:
        return "partial"
    if had_errors or b"\0" in markup or _DOCTYPE.match(markup) is None:
        return "repaired"
    return "clean"


def _reason(marker: str | None, is_shell: bool, is_truncated: bool, *, is_blank: bool) -> Reason:
    if marker is not None:
        return Reason.CONSENT_WALL if marker.startswith("consent:") else Reason.CHALLENGE
    if is_shell:
        return Reason.SCRIPT_SHELL
    if is_blank and not is_truncated:
        return Reason.EMPTY_BODY  # a template that died before its content, a frameset: nothing to read, nothing absent
    return Reason.PARSE_TRUNCATED if is_truncated else Reason.OK
