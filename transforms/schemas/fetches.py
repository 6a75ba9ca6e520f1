"""Schemas of stages 2 and 4: what the network answered."""

from __future__ import annotations

import pyarrow as pa

from transforms.schemas.dataset import BOOL, HASH, STR, TIME, U8, U16, U32, U64, Dataset, column

HOP = pa.struct([
    column("url", STR, "URL of the hop"),
    column("gate", STR, "last gate that was asked: scheme, port, address, scope, robots, clock, connect, tls, response"),
    column("reason", STR, "reason code of that gate's answer (`ok` when it passed)"),
    column("address", STR, "IP address that was checked and connected to", null=True),
    column("status", U16, "HTTP status of the hop", null=True),
])

PAGE_FETCHES = Dataset(
    "page_fetches",
    "One row per source and window: the outcome of its fetch, with a reason code.",
    pa.schema([
        column("source_url_id", U64, "urls.id of the source page"),
        column("source_url", STR, "identity of the source page"),
        column("registrable_domain", STR, "registrable domain of the source's host"),
        column("fetch_job_id", U64, "page_fetch_jobs.id"),
        column("outcome", STR, "transforms.reasons.Outcome"),
        column("reason", STR, "transforms.reasons.Reason"),
        column("detail", STR, "one sentence for a person; never a secret", null=True),
        column("http_status", U16, "status of the final response", null=True),
        column("final_url", STR, "URL that answered, after redirects (WHATWG serialisation)", null=True),
        column("is_redirected", BOOL, "at least one redirect was followed"),
        column("hops", pa.list_(HOP), "every hop with its gate decisions, in order"),
        column("fetched_at", TIME, "when the outcome was decided (the flow's clock)"),
        column("elapsed_ms", U32, "time from first gate to outcome, without waiting for the origin's clock"),
        column("validation_method", STR, "full_body | not_modified | no_body"),
        column("wire_bytes", U64, "body bytes received, before decoding"),
        column("body_bytes", U64, "body bytes after decoding (of the reused snapshot for a 304: 0)"),
        column("content_hash", HASH, "SHA-256 of the decoded body (for a 304: of the reused snapshot)", null=True),
        column("object_key", STR, "object key of the snapshot", null=True),
        column("content_type", STR, "Content-Type as received", null=True),
        column("etag", STR, "ETag as received", null=True),
        column("last_modified", STR, "Last-Modified as received", null=True),
        column("x_robots_tag", pa.list_(STR), "every X-Robots-Tag value, in order"),
        column("link_header", pa.list_(STR), "every Link header value, in order"),
        column("refresh_header", STR, "Refresh header value", null=True),
        column("retry_after_s", U32, "Retry-After in seconds from fetched_at", null=True),
        column("robots_version", STR, "version (hash) of the robots.txt that was obeyed", null=True),
        column("warnings", pa.list_(STR), "soft_404, parked, ...: never a cause of loss"),
        column("attempt", U8, "attempt number within the window, from 1"),
    ]),
    ("source_url_id",),
)

TARGET_HEALTH = Dataset(
    "target_health",
    "One row per monitored target URL and window: does the customer's page answer, and may it be indexed?",
    pa.schema([
        column("target_url_id", U64, "urls.id of the target page"),
        column("target_url", STR, "identity of the target page"),
        column("outcome", STR, "transforms.reasons.Outcome"),
        column("reason", STR, "transforms.reasons.Reason"),
        column("health", STR, "transforms.reasons.Health"),
        column("http_status", U16, "status of the final response", null=True),
        column("final_url", STR, "URL that answered, after redirects", null=True),
        column("is_redirected", BOOL, "at least one redirect was followed"),
        column("canonical_url", STR, "canonical that the page states (header first, then HTML)", null=True),
        column("robots_indexable", BOOL, "false: noindex for us or for all; null: not known", null=True),
        column("checked_at", TIME, "when it was decided (the flow's clock)"),
        column("elapsed_ms", U32, "time from first gate to outcome"),
    ]),
    ("target_url_id",),
)
