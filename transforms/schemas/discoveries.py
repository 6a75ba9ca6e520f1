"""Schema of what stage 5 found without having been asked: links of visited pages that a target rule accepts."""

from __future__ import annotations

import pyarrow as pa

from transforms.schemas.dataset import BOOL, HASH, KEY, STR, TIME, U16, U32, U64, Dataset, column

DISCOVERED_EDGES = Dataset(
    "discovered_edges",
    "One row per new edge (project, source, target) that a visited page showed. It is to be registered; then "
    "`transforms.matching.observe_discovered` gives it an observation in the window that found it.",
    pa.schema([
        column("tenant_id", KEY, "owner of the project"),
        column("project_id", KEY, "projects.id"),
        column("crawl_run_id", KEY, "crawl_runs.id of the project's run in this window"),
        column("crawl_page_id", U64, "crawl_pages.id: the project's consumer of the source", null=True),
        column("source_url_id", U64, "urls.id of the source page"),
        column("source_url", STR, "identity of the source page"),
        column("source_url_hash", HASH, "urls.url_hash of the source"),
        column("source_registrable_domain", STR, "registrable domain of the source's host"),
        column("target_url", STR, "identity of the link that stands for the edge (first followed one)"),
        column("target_url_hash", HASH, "urls.url_hash of the target"),
        column("target_host", STR, "host of the target"),
        column("target_registrable_domain", STR, "registrable domain of that host (the host itself where there is none)"),
        column("observed_at", TIME, "when the source answered"),
        column("link_count", U16, "links on the page that would stand for the edge"),
        column("position", U32, "as in link_manifests, of the link that stands for the edge"),
        column("anchor_text", STR, "as in link_manifests"),
        column("rel_nofollow", BOOL, "as in link_manifests"),
        column("rel_ugc", BOOL, "as in link_manifests"),
        column("rel_sponsored", BOOL, "as in link_manifests"),
        column("follow", STR, "as in link_manifests"),
        column("is_image", BOOL, "as in link_manifests"),
        column("placement", STR, "as in link_manifests"),
        column("target_rule_ids", pa.list_(KEY), "project_targets that accept the target"),
    ]),
    ("project_id", "source_url_id", "target_url"),
)  # fmt: skip
