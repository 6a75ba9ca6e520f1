"""Schemas of stage 1, `due_sources`: what a window has to check."""

from __future__ import annotations

import pyarrow as pa

from transforms.schemas.dataset import BOOL, HASH, I16, KEY, STR, TIME, U8, U16, U32, U64, Dataset, column

DUE_SOURCES = Dataset(
    "due_sources",
    "One row per source page that a window x shard has claimed, whoever asked for it.",
    pa.schema([
        column("source_url_id", U64, "urls.id of the source page"),
        column("source_url", STR, "identity of the source page"),
        column("source_url_hash", HASH, "urls.url_hash"),
        column("registrable_domain", STR, "registrable domain of the source's host"),
        column("fetch_job_id", U64, "page_fetch_jobs.id: the coalesced job"),
        column("priority", I16, "highest priority of the edges that want it; higher is sooner"),
        column("due_at", TIME, "when the earliest of its edges fell due"),
        column("is_confirmation", BOOL, "a first miss of one of its edges waits for confirmation"),
        column("edges", U32, "how many expected edges it has"),
        column("tenant_id", KEY, "the tenant that it is charged to (transforms.fairness)", null=True),
        column("tenant_weight", U32, "that tenant's scheduler weight, when the page was claimed", null=True),
        column("prior_content_hash", HASH, "content hash of the last available snapshot", null=True),
        column("prior_object_key", STR, "object key of that snapshot", null=True),
        column("prior_document_url", STR, "final URL that snapshot was fetched from", null=True),
        column("prior_content_type", STR, "Content-Type that snapshot came with", null=True),
        column("prior_etag", STR, "its ETag, sent back as If-None-Match", null=True),
        column("prior_last_modified", STR, "its Last-Modified, sent back as If-Modified-Since, as the server spelled it", null=True),
        column("prior_headers", STR, "headers that snapshot came with, JSON: x_robots_tag, link_header, refresh_header", null=True),
        column("prior_link_count", U32, "links in the source's last good manifest, to notice a collapse", null=True),
        column("prior_text_bytes", U32, "visible text in that manifest", null=True),
        column("collapsed_looks", U16, "looks since then at which the page was a collapse of it", null=True),
        column("collapsed_since", TIME, "the first of them", null=True),
    ]),
    ("source_url_id",),
)

EXPECTED_EDGES = Dataset(
    "expected_edges",
    "One row per edge that a claimed source is expected to hold.",
    pa.schema([
        column("tenant_id", KEY, "owner of the project"),
        column("project_id", KEY, "projects.id"),
        column("backlink_id", U64, "backlinks.id"),
        column("crawl_run_id", KEY, "crawl_runs.id: SHA-256(project:verification:window)[:16]"),
        column("crawl_page_id", U64, "crawl_pages.id: the project's consumer of the source"),
        column("source_url_id", U64, "urls.id of the source page"),
        column("source_url", STR, "identity of the source page"),
        column("source_url_hash", HASH, "urls.url_hash of the source"),
        column("source_registrable_domain", STR, "registrable domain of the source's host"),
        column("target_url_id", U64, "urls.id of the target page"),
        column("target_url", STR, "identity of the target page"),
        column("target_url_hash", HASH, "urls.url_hash of the target"),
        column("any_target", BOOL, "true: any link that a target rule of the project accepts stands for this edge "
                                   "(the import named only the source page)"),
        column("was_live", BOOL, "the edge is live in current state, for host incidents"),
        column("was_redirected", BOOL, "it was last found through the source's own redirector", null=True),
    ]),
    ("source_url_id", "backlink_id"),
)

TARGET_RULES = Dataset(
    "target_rules",
    "The active target rules of every project that has an edge in the window x shard, as they were when it was claimed.",
    pa.schema([
        column("tenant_id", KEY, "owner of the project"),
        column("project_id", KEY, "projects.id"),
        column("project_target_id", KEY, "project_targets.id"),
        column("scope", STR, "domain | subdomain | url_prefix | exact_url"),
        column("host", STR, "host of the target (ASCII)"),
        column("registrable_domain", STR, "registrable domain of that host"),
        column("url", STR, "identity of the prefix or exact URL; null for domain and subdomain", null=True),
        column("include_subdomains", BOOL, "hosts below count too"),
        column("is_strict", BOOL, "nothing is tolerated: scheme, www., click parameters and slash must be equal"),
        column("rule_version", U8, "version of the matching rules"),
    ]),
    ("project_id", "project_target_id"),
)
