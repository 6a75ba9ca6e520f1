"""What a project's alert rules want. Here: their JSON, checked. Not here: what happened.

- `event_types`: array of event types or patterns (`events.EVENT_TYPES`, `*` stands for anything).
- `filters`: object; every key given must hold, a list means "one of":
  `source_domains`, `exclude_source_domains` (registrable domains), `target_url_prefixes`, `target_rule_ids` (hex),
  `follow` (`follow`, `nofollow_link`, …), `placements`. The last two pass where the link is not to be seen, as when it
  is lost.
- `channels`: array of `{"channel": "email" | "slack" | "webhook", "destination": …}`; a destination is an address or
  the name of a secret and goes to the delivery alone, never into a payload.

A rule that cannot be understood alerts nobody, and is named in `problems`; it must not stop the state from being
written.
"""

from __future__ import annotations

import fnmatch
import json
from dataclasses import dataclass
from typing import Any

import polars as pl
import pyarrow as pa

from transforms.alerts.events import EVENT_TYPES

CHANNELS = ("email", "slack", "webhook")
FILTERS = (
    "source_domains", "exclude_source_domains", "target_url_prefixes", "target_rule_ids", "follow", "placements",
)  # fmt: skip

_WANTED: dict[str, Any] = {
    "project_id": pl.Binary,
    "alert_rule_id": pl.Binary,
    "rule_name": pl.String,
    "event_type": pl.String,
    "cooldown_s": pl.Int64,
    **{f"f_{name}": pl.List(pl.String) for name in FILTERS},
}
_CHANNELS: dict[str, Any] = {"alert_rule_id": pl.Binary, "channel": pl.String, "destination": pl.String}


@dataclass(frozen=True)
class ParsedRules:
    wanted: pl.DataFrame
    """One row per rule and event type, with its filters as list columns `f_…` (null: not filtered)."""
    channels: pl.DataFrame
    """alert_rule_id, channel, destination; distinct."""
    problems: list[str]
    """One sentence for each rule that was left out."""


def parse_rules(rules: pa.Table) -> ParsedRules:
    """`rules` has `project_id`, `alert_rule_id`, `name`, `cooldown_seconds` and the JSON texts described above."""
    wanted: list[dict[str, Any]] = []
    channels: list[dict[str, Any]] = []
    problems: list[str] = []
    for rule in rules.to_pylist():
        found = rule_problems(rule["event_types"], rule["filters"], rule["channels"])
        if found:
            problems.append(
                f"alert rule {rule['name']!r} of project {rule['project_id'].hex()} alerts nobody: {found[0]}"
            )
            continue
        filters = json.loads(rule["filters"] or "{}")
        lists = {f"f_{name}": [filters[name]] if isinstance(filters[name], str) else filters[name] for name in filters}
        matching = {t for pattern in json.loads(rule["event_types"]) for t in fnmatch.filter(EVENT_TYPES, pattern)}
        wanted += [
            {
                "project_id": rule["project_id"],
                "alert_rule_id": rule["alert_rule_id"],
                "rule_name": rule["name"],
                "event_type": event_type,
                "cooldown_s": rule["cooldown_seconds"],
                **lists,
            }
            for event_type in sorted(matching)
        ]
        channels += [
            {
                "alert_rule_id": rule["alert_rule_id"],
                "channel": channel["channel"],
                "destination": channel["destination"],
            }
            for channel in json.loads(rule["channels"] or "[]")
        ]
    return ParsedRules(
        pl.DataFrame(wanted, schema=_WANTED),
        pl.DataFrame(channels, schema=_CHANNELS).unique(maintain_order=True),
        problems,
    )


def rule_problems(event_types: str, filters: str | None, channels: str | None) -> list[str]:
    """What is wrong with a rule's JSON texts, one sentence each; empty when it can be obeyed."""
    try:
        types, wanted, to = json.loads(event_types), json.loads(filters or "{}"), json.loads(channels or "[]")
    except json.JSONDecodeError as error:
        return [f"it is not JSON ({error})"]
    problems = []
    if not _is_strings(types) or not types:
        problems.append("event_types must be an array of event types")
    else:
        unknown = [each for each in types if not fnmatch.filter(EVENT_TYPES, each)]
        problems += [f"there is no event type {each!r}; there are {', '.join(EVENT_TYPES)}" for each in unknown]
    if not isinstance(wanted, dict):
        problems.append("filters must be an object")
    else:
        problems += [
            f"there is no filter {name!r}; there are {', '.join(FILTERS)}" for name in wanted if name not in FILTERS
        ]
        problems += [
            f"filter {name!r} must be a text or an array of texts"
            for name, value in wanted.items()
            if name in FILTERS and not isinstance(value, str) and not _is_strings(value)
        ]
    if not isinstance(to, list):
        problems.append("channels must be an array")
    else:
        problems += [
            "a channel needs channel (email, slack or webhook) and destination"
            for each in to
            if not isinstance(each, dict)
            or each.get("channel") not in CHANNELS
            or not isinstance(each.get("destination"), str)
            or not each["destination"]
        ]
    return problems


def _is_strings(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(each, str) for each in value)


def passing(candidates: pl.DataFrame) -> pl.DataFrame:
    """Those of the candidates (`happened` joined with `wanted`) that their rule's filters let through."""

    def one_of(name: str, value: pl.Expr, *, unknown_passes: bool = False) -> pl.Expr:
        allowed = pl.col(f"f_{name}")
        inside = allowed.list.contains(value)
        return allowed.is_null() | (value.is_null() | inside if unknown_passes else inside).fill_null(value=False)

    domain = pl.col("o_source_registrable_domain")
    kept = candidates.filter(
        one_of("source_domains", domain)
        & ~pl.col("f_exclude_source_domains").list.contains(domain).fill_null(value=False)
        & one_of("follow", pl.col("o_follow"), unknown_passes=True)
        & one_of("placements", pl.col("o_placement"), unknown_passes=True)
    ).with_row_index("_candidate")
    hexed = pl.col("o_target_rule_ids").list.eval(pl.element().bin.encode("hex"))
    kept = kept.filter(
        pl.col("f_target_rule_ids").is_null() | (hexed.list.set_intersection("f_target_rule_ids").list.len() > 0)
    )
    prefixed = kept.filter(pl.col("f_target_url_prefixes").is_not_null()).explode("f_target_url_prefixes")
    right = prefixed.filter(pl.col("o_target_url").str.starts_with(pl.col("f_target_url_prefixes")))["_candidate"]
    return kept.filter(pl.col("f_target_url_prefixes").is_null() | pl.col("_candidate").is_in(right.implode())).drop(
        "_candidate"
    )
