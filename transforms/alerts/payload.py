"""What a person reads in an alert, as JSON. Here: the payload, schema 1. Not here: who gets it.

One object: what happened and when, the rule, source, target, link, state, `before` and `after` of a change, and the
evidence that anyone can replay (observation, snapshot, manifest). It holds no channel, no destination and no secret.
Identifiers are hex, 64-bit numbers are strings (JSON's numbers end at 2^53), times are ISO 8601 in UTC.
"""

from __future__ import annotations

import polars as pl

_LINK = ("link_url", "anchor_text", "is_image_link", "rel_nofollow", "rel_ugc", "rel_sponsored", "follow", "placement")

_COMPARED: dict[str, tuple[str, ...]] = {
    "backlink.lost": _LINK,
    "backlink.recovered": _LINK,
    "backlink.rel_changed": ("rel_nofollow", "rel_ugc", "rel_sponsored", "follow"),
    "backlink.anchor_changed": ("anchor_text", "is_image_link"),
    "backlink.placement_changed": ("placement",),
    "backlink.redirect_changed": ("is_redirected", "link_url", "source_is_redirected", "source_final_url"),
    "source.canonical_changed": ("source_canonical_url",),
    "source.noindex": ("source_robots_indexable",),
    "source.indexable": ("source_robots_indexable",),
    "target.broken": ("target_fetch_health", "target_http_status"),
    "target.blocked": ("target_fetch_health", "target_http_status"),
    "target.repaired": ("target_fetch_health", "target_http_status"),
    "target.noindex": ("target_robots_indexable",),
    "target.indexable": ("target_robots_indexable",),
    "target.redirect_changed": ("target_is_redirected", "target_final_url"),
}
"""What `before` and `after` hold, by event type."""

COMPARED_COLUMNS = tuple(sorted({name for names in _COMPARED.values() for name in names}))

_SENTENCE = {
    "backlink.new": "New: {source} links to {target}.",
    "backlink.lost": "Lost: {source} no longer links to {target}.",
    "backlink.recovered": "Recovered: {source} links to {target} again.",
    "backlink.rel_changed": "The rel of the link from {source} to {target} changed.",
    "backlink.anchor_changed": "The anchor of the link from {source} to {target} changed.",
    "backlink.placement_changed": "The link from {source} to {target} moved on its page.",
    "backlink.redirect_changed": "The way from {source} to {target} changed: a redirect came or went.",
    "source.canonical_changed": "{source} names another canonical page.",
    "source.noindex": "{source} may no longer be indexed.",
    "source.indexable": "{source} may be indexed again.",
    "target.broken": "{target} is broken.",
    "target.blocked": "{target} refuses us.",
    "target.repaired": "{target} answers again.",
    "target.noindex": "{target} may no longer be indexed.",
    "target.indexable": "{target} may be indexed again.",
    "target.redirect_changed": "{target} redirects differently.",
}


def with_payloads(alerts: pl.DataFrame) -> pl.DataFrame:
    """`alerts` (rows of `happened`, their rule, and `b_…`, the evidence before) with a column `payload` of JSON."""
    groups = [_of_type(group, str(key[0])) for key, group in alerts.group_by("event_type", maintain_order=True)]
    return pl.concat(groups) if groups else alerts.with_columns(payload=pl.lit(None, pl.String))


def _of_type(alerts: pl.DataFrame, event_type: str) -> pl.DataFrame:
    compared = _COMPARED.get(event_type, ())
    knows_before = pl.col("b_observation_id").is_not_null()
    before = pl.struct(*(pl.col(f"b_{name}").alias(name) for name in compared)) if compared else pl.lit(None)
    after = pl.struct(*(pl.col(f"o_{name}").alias(name) for name in compared)) if compared else pl.lit(None)
    return alerts.with_columns(
        payload=pl.struct(
            pl.lit(1).alias("schema"),
            event=pl.lit(event_type),
            summary=_sentence(event_type),
            occurred_at=_iso("observed_at"),
            rule=pl.struct(id=_hex("alert_rule_id"), name="rule_name"),
            tenant_id=_hex("tenant_id"),
            project_id=_hex("project_id"),
            backlink_id=pl.col("backlink_id").cast(pl.String),
            source=pl.struct(
                url="o_source_url",
                domain="o_source_registrable_domain",
                final_url="o_source_final_url",
                title="o_page_title",
                http_status="o_source_http_status",
                health="o_source_fetch_health",
                indexable="o_source_robots_indexable",
            ),
            target=pl.struct(
                url="o_target_url",
                final_url="o_target_final_url",
                http_status="o_target_http_status",
                health="o_target_fetch_health",
                indexable="o_target_robots_indexable",
            ),
            link=pl.struct(
                *(pl.col(f"o_{name}").alias(name) for name in _LINK),
                links_on_page="o_link_count",
                tolerated="o_tolerated",
                is_redirected="o_is_redirected",
            ),
            state=pl.struct(
                now="state",
                misses="misses",
                first_miss_at=_iso("first_miss_at"),
                last_live_at=_iso("last_live_at"),
                lost_at=_iso("lost_at"),
                version=pl.col("state_version").cast(pl.String),
            ),
            before=pl.when(knows_before).then(before),
            after=pl.lit(None) if event_type == "backlink.lost" else after,
            evidence=pl.struct(
                finding="o_evidence",
                reason="o_evidence_reason",
                observation_id=pl.col("observation_id").cast(pl.String),
                previous_observation_id=pl.col("b_observation_id").cast(pl.String),
                content_hash=_hex("o_content_hash"),
                object_key="o_object_key",
                manifest_id=_hex("o_manifest_id"),
                parser_version="o_parser_version",
                crawl_run_id=_hex("o_crawl_run_id"),
            ),
        ).struct.json_encode()
    )


def _sentence(event_type: str) -> pl.Expr:
    texts = _SENTENCE[event_type].replace("{source}", "\0source\0").replace("{target}", "\0target\0").split("\0")
    return pl.concat_str(pl.col(f"o_{text}_url") if text in ("source", "target") else pl.lit(text) for text in texts)


def _hex(name: str) -> pl.Expr:
    return pl.col(name).bin.encode("hex")


def _iso(name: str) -> pl.Expr:
    return pl.col(name).dt.strftime("%Y-%m-%dT%H:%M:%S%.6fZ")
