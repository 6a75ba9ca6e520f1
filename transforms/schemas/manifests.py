"""Schemas of stage 3, the link manifest: a page row and a row per link, parsed offline from a stored snapshot.

A manifest's identity is (content hash, document URL, parser version, schema version): `manifest_id`. Both files hold the
rows of every source of the partition, whether parsed now or reused from an earlier window.
"""

from __future__ import annotations

import pyarrow as pa

from transforms.schemas.dataset import BOOL, F32, HASH, KEY, STR, U32, U64, Dataset, column

MANIFEST_SCHEMA_VERSION = 1

PAGE_MANIFESTS = Dataset(
    "page_manifests",
    "One row per source whose snapshot was parsed (or whose parse failed, with a reason).",
    pa.schema([
        column("source_url_id", U64, "urls.id of the source page"),
        column("manifest_id", KEY, "SHA-256(content hash, document URL, headers that matter, parser and schema version)[:16]"),
        column("content_hash", HASH, "snapshot that was parsed"),
        column("document_url", STR, "URL that the body came from, after redirects"),
        column("base_url", STR, "base that links were resolved against (first usable <base href>, else document_url)"),
        column("parser_version", STR, "version of the parser"),
        column("reason", STR, "transforms.reasons.Reason: ok, parse_truncated, parse_timeout, script_shell, ..."),
        column("title", STR, "text of <title>, whitespace folded", null=True),
        column("language", STR, "lang of <html>, else Content-Language meta", null=True),
        column("charset", STR, "encoding that the bytes were read as (WHATWG name)"),
        column("charset_method", STR, "bom | header | meta | fallback"),
        column("robots_directives", pa.list_(STR), "directives that bind us, meta and header, strictest of general and specific"),
        column("robots_indexable", BOOL, "false: noindex or none binds us"),
        column("meta_nofollow", BOOL, "the page's meta robots says nofollow"),
        column("header_nofollow", BOOL, "X-Robots-Tag says nofollow"),
        column("canonical_html", pa.list_(STR), "every link rel=canonical in HTML, resolved, in order"),
        column("canonical_header", pa.list_(STR), "every canonical in Link headers, resolved, in order"),
        column("canonical_issues", pa.list_(STR), "what is wrong with them: html_several, html_unparsable, html_not_http, html_empty, "
                                                  "html_fragment (header_... likewise), header_and_html_differ"),
        column("is_truncated", BOOL, "a limit was hit: a link may still be found, none is proven absent"),
        column("truncated_by", STR, "the limit: bytes | nodes | depth | links | time | body (the fetch kept a part)", null=True),
        column("parse_quality", STR, "clean | repaired | partial"),
        column("text_ratio", F32, "visible text bytes over body bytes"),
        column("text_bytes", U32, "visible text bytes"),
        column("link_count", U32, "a[href] and area[href]"),
        column("is_script_shell", BOOL, "content appears only when scripts run"),
        column("challenge", STR, "marker of a page that stands in for another: challenge, consent, maintenance, placeholder", null=True),
        column("body_bytes", U64, "decoded size of the snapshot"),
    ]),
    ("source_url_id",),
)

LINK_MANIFESTS = Dataset(
    "link_manifests",
    "One row per link of a parsed page, in document order.",
    pa.schema([
        column("source_url_id", U64, "urls.id of the source page"),
        column("manifest_id", KEY, "the page row it belongs to"),
        column("position", U32, "document order within the page, from 0"),
        column("kind", STR, "a | area | frame | form | canonical | alternate | meta_refresh | http_refresh | link_header | svg_xlink"),
        column("raw_href", STR, "attribute value as written"),
        column("resolved", STR, "WHATWG serialisation against the base, but | in paths is %7C (Chromium); null: unparsable", null=True),
        column("identity", STR, "URL identity (transforms.urls); null when refused", null=True),
        column("identity_hash", HASH, "urls.url_hash of the identity", null=True),
        column("refusal", STR, "reason code when there is no identity (mailto, javascript, too long, ...)", null=True),
        column("host", STR, "host of the identity", null=True),
        column("registrable_domain", STR, "registrable domain of the host", null=True),
        column("anchor_text", STR, "rendered text, whitespace folded; alt text for image links"),
        column("anchor_raw", STR, "the same text before folding, at most 4,096 characters"),
        column("is_image", BOOL, "the anchor is an image; anchor_text is its alt"),
        column("rel", pa.list_(STR), "rel tokens, lower case, in order, unique"),
        column("rel_nofollow", BOOL, "rel has nofollow"),
        column("rel_ugc", BOOL, "rel has ugc"),
        column("rel_sponsored", BOOL, "rel has sponsored"),
        column("follow", STR, "follow | nofollow_link | nofollow_meta | nofollow_header: effective, and where a nofollow comes from"),
        column("placement", STR, "content | header | footer | sidebar | unknown"),
        column("is_hidden", BOOL, "markup hides it (hidden, display:none, aria-hidden)"),
        column("locator", STR, "short path to the link that survives unrelated edits", null=True),
        column("occurrence_key", HASH, "SHA-256(kind, identity, anchor, placement, locator, n-th such): same occurrence next time"),
    ]),
    ("source_url_id", "position"),
)
