"""Who is told what: events, filters, deliveries, keys, cooldown, retraction, and what a person reads."""

from __future__ import annotations

import hashlib
import json
from datetime import datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest

from tests.fixtures.matching import FETCHED, WindowBuilder, key16
from transforms.alerts import EVENT_TYPES, Raised, raise_alerts, rule_problems
from transforms.schemas import EDGE_STATES, LINK_OBSERVATIONS
from warehouse.ledger.tables import ALERT_DELIVERIES, ALERT_EVENTS, ALERT_RULES, RECENT_ALERTS

PAGE, TARGET = "https://source.example/", "https://shop.example/a"
MAIL = [{"channel": "email", "destination": "team@example.org"}]
HOUR = timedelta(hours=1)


def observation(*, link: bool = True, at: datetime = FETCHED, **values: Any) -> dict[str, Any]:
    """A real observation, as matching makes it, with columns changed."""
    window = WindowBuilder()
    rule = window.rule("domain", "shop.example")
    window.edge(PAGE, TARGET, crawl_run_id=key16(f"run:{at}"))
    window.fetch(PAGE, fetched_at=at).page(PAGE).target_check(TARGET)
    if link:
        window.link(PAGE, TARGET, "Shoes")
    (row,) = window.match().observations.to_pylist()
    assert row["target_rule_ids"] == [rule]
    return {**row, **values}


def state(of: dict[str, Any], event: str = "none", changes: tuple[str, ...] = (), **values: Any) -> dict[str, Any]:
    return {
        **{name: of[name] for name in
           ("backlink_id", "tenant_id", "project_id", "observation_id", "idempotency_key", "observed_at")},
        "state": "lost" if event == "lost" else "live", "event": event, "changes": list(changes),
        "misses": 2 if event == "lost" else 0, "first_miss_at": None, "ever_live": True, "last_live_at": None,
        "lost_at": None, "is_latest": True, "state_version": 2**60, **values,
    }  # fmt: skip


def rule(types: list[str], name: str = "r", **values: Any) -> dict[str, Any]:
    packed = {key: json.dumps(values.pop(key, default)) for key, default in (("filters", {}), ("channels", MAIL))}
    return {
        "alert_rule_id": key16(name), "tenant_id": key16("tenant"), "project_id": key16("p1"), "name": name,
        "event_types": json.dumps(types), "cooldown_seconds": 0, **packed, **values,
    }  # fmt: skip


def recent(*rows: tuple[str, dict[str, Any], str]) -> pa.Table:
    """Standing alerts: (rule's name, observation, event type)."""
    return RECENT_ALERTS.table(
        [
            {"alert_rule_id": key16(name), "backlink_id": of["backlink_id"], "event_type": event_type,
             "observation_id": of["observation_id"], "occurred_at": of["observed_at"]}
            for name, of, event_type in rows
        ]
    )  # fmt: skip


def raised(
    states: list[dict[str, Any]], observations: list[dict[str, Any]], rules: list[dict[str, Any]], **options: Any
) -> Raised:
    return raise_alerts(
        states=EDGE_STATES.table(states),
        observations=LINK_OBSERVATIONS.table(observations),
        rules=ALERT_RULES.table(rules),
        **options,
    )


def types_of(result: Raised) -> list[str]:
    return sorted(result.events["event_type"].to_pylist())


def test_the_tables_are_those_that_the_ledger_takes() -> None:
    result = raised([], [], [])
    for table, dataset in ((result.events, ALERT_EVENTS), (result.deliveries, ALERT_DELIVERIES)):
        assert table.schema.names == dataset.schema.names
        assert table.schema.types == dataset.schema.types
        assert table.num_rows == 0
    assert result.outbox.num_rows == 0


def test_a_lost_link_is_one_event_one_delivery_per_destination_and_one_broker_row() -> None:
    gone = observation(link=False)
    channels = [*MAIL, *MAIL, {"channel": "webhook", "destination": "env:HOOK"}]
    result = raised([state(gone, "lost")], [gone], [rule(["backlink.lost"], channels=channels)])
    (event,) = result.events.to_pylist()
    key = hashlib.sha256(f"{key16('r').hex()}:5001:backlink.lost:{gone['observation_id']}".encode()).digest()
    assert event["deduplication_key"] == key
    assert (event["project_id"], event["alert_rule_id"], event["backlink_id"]) == (key16("p1"), key16("r"), 5001)
    assert (event["observation_id"], event["event_type"]) == (gone["observation_id"], "backlink.lost")
    assert event["occurred_at"] == FETCHED
    assert result.deliveries.to_pylist() == [
        {"deduplication_key": key, "channel": "email", "destination": "team@example.org"},
        {"deduplication_key": key, "channel": "webhook", "destination": "env:HOOK"},
    ]
    (row,) = result.outbox.to_pylist()
    assert (row["topic"], row["partition_key"]) == ("alert-events", key16("p1").hex())
    assert row["event_key"] == hashlib.sha256(f"alert:{key.hex()}".encode()).digest()
    assert row["payload"] == event["payload"]


def test_a_rerun_gives_the_same_rows() -> None:
    gone = observation(link=False)
    arguments = ([state(gone, "lost")], [gone], [rule(["*"], name="a"), rule(["backlink.lost"], name="b")])
    first, second = raised(*arguments), raised(*arguments, recent=recent(("a", gone, "backlink.lost")))
    assert first.events.equals(second.events)
    assert first.deliveries.equals(second.deliveries)
    assert first.outbox.equals(second.outbox)


def test_what_a_person_reads() -> None:
    before = observation(at=FETCHED - 5 * HOUR, follow="follow")
    after = observation(follow="nofollow_link", rel_nofollow=True)
    result = raised(
        [state(after, changes=("rel",))],
        [after],
        [rule(["backlink.rel_changed"], name="Marketing")],
        previous=LINK_OBSERVATIONS.table([before]),
    )
    (event,) = result.events.to_pylist()
    read = json.loads(event["payload"])
    assert read["summary"] == "The rel of the link from https://source.example/ to https://shop.example/a changed."
    assert (read["schema"], read["event"], read["occurred_at"]) == (
        1,
        "backlink.rel_changed",
        "2026-12-01T10:07:00.000000Z",
    )
    assert read["rule"] == {"id": key16("Marketing").hex(), "name": "Marketing"}
    assert read["source"] == {
        "url": PAGE, "domain": "source.example", "final_url": PAGE, "title": "A page", "http_status": 200,
        "health": "ok", "indexable": True,
    }  # fmt: skip
    assert read["target"]["url"] == TARGET
    assert (read["link"]["anchor_text"], read["link"]["placement"]) == ("Shoes", "content")
    assert read["before"] == {"rel_nofollow": False, "rel_ugc": False, "rel_sponsored": False, "follow": "follow"}
    assert read["after"] == {"rel_nofollow": True, "rel_ugc": False, "rel_sponsored": False, "follow": "nofollow_link"}
    assert read["evidence"]["observation_id"] == str(after["observation_id"])
    assert read["evidence"]["previous_observation_id"] == str(before["observation_id"])
    assert read["evidence"]["content_hash"] == after["content_hash"].hex()
    assert read["evidence"]["manifest_id"] == after["manifest_id"].hex()
    assert (read["evidence"]["finding"], read["evidence"]["reason"]) == ("found", "link_found")
    assert read["state"]["version"] == str(2**60), "64-bit numbers are strings"
    assert read["backlink_id"] == "5001"
    assert "team@example.org" not in event["payload"]


def test_a_lost_link_shows_how_it_looked() -> None:
    before, gone = observation(at=FETCHED - 5 * HOUR), observation(link=False)
    result = raised([state(gone, "lost")], [before, gone], [rule(["backlink.lost"])])
    (event,) = result.events.to_pylist()
    read = json.loads(event["payload"])
    assert (read["before"]["anchor_text"], read["before"]["link_url"]) == ("Shoes", TARGET)
    assert read["after"] is None
    assert read["link"]["anchor_text"] is None
    assert read["evidence"]["reason"] == "link_absent"


def test_before_is_the_newest_found_evidence_before_and_never_a_later_or_another_edges() -> None:
    old = observation(at=FETCHED - 9 * HOUR, anchor_text="older")
    near = observation(at=FETCHED - 5 * HOUR, anchor_text="old")
    miss = observation(at=FETCHED - HOUR, link=False)
    later = observation(at=FETCHED + HOUR, anchor_text="later")
    other = observation(at=FETCHED - HOUR, backlink_id=9, observation_id=9, anchor_text="not mine")
    now = observation(anchor_text="new")
    result = raised([state(now, changes=("anchor",))], [later, now, miss, near, old, other], [rule(["*"])])
    (event,) = result.events.to_pylist()
    read = json.loads(event["payload"])
    assert (read["before"]["anchor_text"], read["after"]["anchor_text"]) == ("old", "new")


def test_without_an_earlier_observation_before_is_null() -> None:
    now = observation()
    (event,) = raised([state(now, changes=("anchor",))], [now], [rule(["*"])]).events.to_pylist()
    assert json.loads(event["payload"])["before"] is None


@pytest.mark.parametrize(
    ("change", "values", "event_type"),
    [
        ("rel", {}, "backlink.rel_changed"),
        ("anchor", {}, "backlink.anchor_changed"),
        ("placement", {}, "backlink.placement_changed"),
        ("redirect", {}, "backlink.redirect_changed"),
        ("source_canonical", {}, "source.canonical_changed"),
        ("source_indexability", {"source_robots_indexable": False}, "source.noindex"),
        ("source_indexability", {"source_robots_indexable": True}, "source.indexable"),
        ("target_health", {"target_fetch_health": "error"}, "target.broken"),
        ("target_health", {"target_fetch_health": "blocked"}, "target.blocked"),
        ("target_health", {"target_fetch_health": "ok"}, "target.repaired"),
        ("target_indexability", {"target_robots_indexable": False}, "target.noindex"),
        ("target_indexability", {"target_robots_indexable": True}, "target.indexable"),
        ("target_redirect", {}, "target.redirect_changed"),
    ],
)
def test_every_change_has_its_event(change: str, values: dict, event_type: str) -> None:
    seen = observation(**values)
    result = raised([state(seen, changes=(change,))], [seen], [rule(["*"])])
    assert types_of(result) == [event_type]
    read = json.loads(result.events["payload"][0].as_py())
    assert read["summary"].endswith(".")
    assert read["after"]


def test_the_vocabulary_is_complete() -> None:
    assert len(EVENT_TYPES) == len(set(EVENT_TYPES)) == 16
    for event in ("new", "lost", "recovered"):
        seen = observation(link=event != "lost")
        assert types_of(raised([state(seen, event)], [seen], [rule(["*"])])) == [f"backlink.{event}"]


def test_several_things_at_once_and_several_rules() -> None:
    seen = observation()
    rules = [rule(["*"], name="all"), rule(["backlink.*"], name="links"), rule(["target.*"], name="targets")]
    result = raised([state(seen, "recovered", ("anchor", "source_canonical"))], [seen], rules)
    told = {(e["alert_rule_id"], e["event_type"]) for e in result.events.to_pylist()}
    assert told == {
        (key16("all"), "backlink.recovered"), (key16("all"), "backlink.anchor_changed"),
        (key16("all"), "source.canonical_changed"),
        (key16("links"), "backlink.recovered"), (key16("links"), "backlink.anchor_changed"),
    }  # fmt: skip


def test_nothing_happened_nobody_is_told_and_other_projects_never() -> None:
    seen = observation()
    assert types_of(raised([state(seen)], [seen], [rule(["*"])])) == []
    other = rule(["*"], project_id=key16("p2"))
    assert types_of(raised([state(seen, "new")], [seen], [other])) == []


def test_a_state_without_its_observation_has_no_evidence_to_show() -> None:
    assert types_of(raised([state(observation(), "lost")], [], [rule(["*"])])) == []


@pytest.mark.parametrize(
    ("filters", "passes"),
    [
        ({}, True),
        ({"source_domains": ["source.example", "x.example"]}, True),
        ({"source_domains": "source.example"}, True),
        ({"source_domains": ["x.example"]}, False),
        ({"source_domains": []}, False),
        ({"exclude_source_domains": ["source.example"]}, False),
        ({"exclude_source_domains": ["x.example"]}, True),
        ({"target_url_prefixes": ["https://no.example/", "https://shop.example/"]}, True),
        ({"target_url_prefixes": ["https://shop.example/b"]}, False),
        ({"follow": ["follow"]}, True),
        ({"follow": ["nofollow_link"]}, False),
        ({"placements": ["content"], "follow": "follow"}, True),
        ({"placements": ["footer"], "follow": "follow"}, False),
        ({"target_rule_ids": [key16("rule:p1:domain:shop.example:0").hex()]}, True),
        ({"target_rule_ids": [key16("x").hex()]}, False),
    ],
)
def test_filters(filters: dict, passes: bool) -> None:
    seen = observation()
    assert types_of(raised([state(seen, "new")], [seen], [rule(["*"], filters=filters)])) == ["backlink.new"] * passes


def test_a_filter_on_the_look_of_a_link_lets_a_lost_one_through() -> None:
    gone = observation(link=False)
    rules = [rule(["*"], filters={"follow": ["follow"], "placements": ["content"]})]
    assert types_of(raised([state(gone, "lost")], [gone], rules)) == ["backlink.lost"]


@pytest.mark.parametrize(
    ("values", "problem"),
    [
        ({"event_types": "[]"}, "event_types must be an array"),
        ({"event_types": '["backlink.los"]'}, "there is no event type 'backlink.los'; there are backlink.new"),
        ({"event_types": "nonsense"}, "it is not JSON"),
        ({"filters": '{"domains": ["x"]}'}, "there is no filter 'domains'; there are source_domains"),
        ({"filters": '{"follow": 3}'}, "filter 'follow' must be a text or an array of texts"),
        ({"filters": "[]"}, "filters must be an object"),
        ({"channels": '[{"channel": "pigeon", "destination": "x"}]'}, "a channel needs channel"),
        ({"channels": '[{"channel": "email"}]'}, "a channel needs channel"),
        ({"channels": "{}"}, "channels must be an array"),
    ],
)
def test_a_rule_that_cannot_be_understood_is_named_and_stops_nobody_else(values: dict, problem: str) -> None:
    gone = observation(link=False)
    bad = {**rule(["*"], name="bad"), **values}
    result = raised([state(gone, "lost")], [gone], [bad, rule(["*"], name="good")])
    assert [e["alert_rule_id"] for e in result.events.to_pylist()] == [key16("good")]
    assert len(result.problems) == 1
    assert result.problems[0].startswith("alert rule 'bad' of project ")
    assert problem in result.problems[0]
    texts = {"event_types": '["*"]', "filters": "{}", "channels": "[]", **values}
    assert problem in rule_problems(**texts)[0]


def test_property_events_within_the_cooldown_are_recorded_but_not_delivered() -> None:
    first = observation(at=FETCHED - timedelta(minutes=50), anchor_text="one")
    second = observation(anchor_text="two")
    third = observation(at=FETCHED + 2 * HOUR, anchor_text="three")
    rules = [rule(["*"], cooldown_seconds=3600)]
    result = raised(
        [state(second, changes=("anchor",)), state(third, changes=("anchor",))],
        [second, third],
        rules,
        recent=recent(("r", first, "backlink.anchor_changed")),
    )
    assert result.events.num_rows == 2
    keys = dict(
        zip(result.events["observation_id"].to_pylist(), result.events["deduplication_key"].to_pylist(), strict=True)
    )
    assert result.deliveries["deduplication_key"].to_pylist() == [keys[third["observation_id"]]]
    assert result.outbox.num_rows == 1
    # Another type, another rule, another edge do not cool it down; nor does exactly the cooldown.
    for standing in (
        recent(("r", first, "backlink.rel_changed")),
        recent(("s", first, "backlink.anchor_changed")),
        recent(("r", {**first, "backlink_id": 1}, "backlink.anchor_changed")),
        recent(("r", {**first, "observed_at": FETCHED - HOUR}, "backlink.anchor_changed")),
    ):
        assert raised([state(second, changes=("anchor",))], [second], rules, recent=standing).deliveries.num_rows == 1


def test_lost_and_recovered_are_never_held_back() -> None:
    first, second = observation(link=False, at=FETCHED - timedelta(minutes=40)), observation(link=False)
    result = raised(
        [state(second, "lost")],
        [second],
        [rule(["*"], cooldown_seconds=86_400)],
        recent=recent(("r", first, "backlink.lost")),
    )
    assert result.deliveries.num_rows == 1


def test_a_backfill_is_recorded_but_is_no_news() -> None:
    gone = observation(link=False)
    result = raised([state(gone, "lost")], [gone], [rule(["*"])], deliver_since=FETCHED + HOUR)
    assert (result.events.num_rows, result.deliveries.num_rows, result.outbox.num_rows) == (1, 0, 0)
    assert raised([state(gone, "lost")], [gone], [rule(["*"])], deliver_since=FETCHED).deliveries.num_rows == 1
