"""Shapes of the tables that cross the ledger's border besides `transforms.schemas`. Here: schemas with meanings. Not
here: how they are stored."""

from __future__ import annotations

import pyarrow as pa

from transforms.schemas.dataset import BOOL, HASH, I16, KEY, STR, TIME, U8, U16, U32, U64, Dataset, column

URLS = Dataset(
    "ledger_urls",
    "URL identities to register. `edges.urls_of(identify_many(...))` makes it.",
    pa.schema([
        column("url", STR, "identity"),
        column("url_hash", HASH, "transforms.urls.url_hash of it"),
        column("host", STR, "host (ASCII, lower case)"),
        column("registrable_domain", STR, "registrable domain, else the host (`site`): what is hashed into buckets"),
        column("public_suffix", STR, "public suffix of the host", null=True),
    ]),
)  # fmt: skip

EDGES = Dataset(
    "ledger_edges",
    "Edges to register.",
    pa.schema([
        column("project_id", KEY, "projects.id"),
        column("source_url_id", U64, "urls.id of the source page"),
        column("target_url_id", U64, "urls.id of the target page"),
        column("any_target", BOOL, "the file named only the source: any link that a target rule accepts counts"),
    ]),
)  # fmt: skip

REGISTERED_EDGES = Dataset(
    "ledger_registered_edges",
    "What `register_edges` answers: one row per input row, in order.",
    pa.schema([
        column("backlink_id", U64, "backlinks.id"),
        column("is_new", BOOL, "not known before this call; of equal rows in one call the first is new"),
    ]),
)  # fmt: skip

IMPORT_ITEMS = Dataset(
    "ledger_import_items",
    "Rows of an imported file and what became of them.",
    pa.schema([
        column("line_number", U32, "line of the file, from 1 (the heading is a line)"),
        column("result", STR, "accepted | duplicate | invalid"),
        column("reason", STR, "why not accepted; null for accepted", null=True),
        column("raw_source", STR, "source as the file spelled it", null=True),
        column("raw_target", STR, "target as the file spelled it", null=True),
        column("backlink_id", U64, "the edge it became or repeated", null=True),
    ]),
)  # fmt: skip

TARGETS_DUE = Dataset(
    "ledger_targets_due",
    "Monitored target URLs that a window x shard has claimed.",
    pa.schema([
        column("target_url_id", U64, "urls.id"),
        column("target_url", STR, "identity"),
        column("registrable_domain", STR, "registrable domain of its host"),
        column("job_id", U64, "target_validation_jobs.id"),
    ]),
    ("target_url_id",),
)  # fmt: skip

PARSED = Dataset(
    "ledger_parsed",
    "Manifests that exist already.",
    pa.schema([
        column("manifest_id", KEY, "as in page_manifests"),
        column("link_manifest_key", STR, "object key of the Parquet part that holds its page row"),
        column("reason", STR, "how the parse ended", null=True),
        column("links_found", U32, "links in it", null=True),
        column("is_truncated", BOOL, "a limit was hit"),
    ]),
)  # fmt: skip

ALERT_RULES = Dataset(
    "ledger_alert_rules",
    "Active alert rules.",
    pa.schema([
        column("alert_rule_id", KEY, "alert_rules.id"),
        column("tenant_id", KEY, "owner of the project"),
        column("project_id", KEY, "projects.id"),
        column("name", STR, "for a person"),
        column("event_types", STR, "JSON array of event names"),
        column("filters", STR, "JSON object"),
        column("channels", STR, "JSON array of {channel, destination}; destinations hold no secret"),
        column("cooldown_seconds", U32, "least time between two events of one edge"),
    ]),
)  # fmt: skip

SCHEDULE = Dataset(
    "ledger_schedule",
    "When each edge is checked next (one row per edge whose newest observation is in the batch).",
    pa.schema([
        column("backlink_id", U64, "backlinks.id"),
        column("next_check_at", TIME, "not before"),
        column("confirm_not_before", TIME, "a first miss waits for confirmation until then; else null", null=True),
    ]),
)  # fmt: skip

ALERT_EVENTS = Dataset(
    "ledger_alert_events",
    "Alerts that the batch's observations cause.",
    pa.schema([
        column("deduplication_key", HASH, "SHA-256(rule id ':' backlink_id ':' event type ':' observation_id)"),
        column("project_id", KEY, "projects.id"),
        column("alert_rule_id", KEY, "alert_rules.id", null=True),
        column("backlink_id", U64, "backlinks.id; null for an incident of a host", null=True),
        column("observation_id", U64, "the observation that caused it", null=True),
        column("event_type", STR, "backlink.lost, ..."),
        column("payload", STR, "JSON object"),
        column("occurred_at", TIME, "observed_at of that observation"),
    ]),
)  # fmt: skip

ALERT_DELIVERIES = Dataset(
    "ledger_alert_deliveries",
    "Where each alert event goes.",
    pa.schema([
        column("deduplication_key", HASH, "of its event"),
        column("channel", STR, "email | slack | webhook"),
        column("destination", STR, "address, or the reference of a secret; never a secret"),
    ]),
)  # fmt: skip

INTERVALS = Dataset(
    "ledger_intervals",
    "What the recheck policy needs to know of an edge and its source.",
    pa.schema([
        column("backlink_id", U64, "backlinks.id"),
        column("source_url_id", U64, "urls.id of the source"),
        column("recrawl_interval_seconds", U32, "the project's interval"),
        column("consecutive_source_failures", U16, "failures of the source in a row"),
        column("last_changed_at", TIME, "when the source's body last changed", null=True),
        column("change_interval_ema_s", pa.float64(), "smoothed seconds between changes", null=True),
        column("changes_seen", U32, "how many changes stand behind it"),
        column("check_priority", I16, "higher is sooner"),
        column("misses", U8, "consecutive complete misses in current state"),
    ]),
)  # fmt: skip

RECENT_ALERTS = Dataset(
    "ledger_recent_alerts",
    "Alert events that stand.",
    pa.schema([
        column("alert_rule_id", KEY, "alert_rules.id", null=True),
        column("backlink_id", U64, "backlinks.id"),
        column("event_type", STR, "what happened"),
        column("observation_id", U64, "the observation that caused it", null=True),
        column("occurred_at", TIME, "when"),
    ]),
)  # fmt: skip

ALERT_OUTBOX = Dataset(
    "ledger_alert_outbox",
    "Broker events of alerts, written with them (`transforms.alerts.raise_alerts`).",
    pa.schema([
        column("event_key", HASH, "SHA-256('alert:' deduplication key hex)"),
        column("topic", STR, "topic"),
        column("partition_key", STR, "what keeps its order"),
        column("payload", STR, "JSON object"),
        column("occurred_at", TIME, "when it happened"),
    ]),
)  # fmt: skip
