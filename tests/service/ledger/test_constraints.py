"""Each constraint that carries a promise, and an attempt to break it on the real server."""

# ruff: noqa: E501, ISC004
from __future__ import annotations

import hashlib
import re
from datetime import timedelta
from typing import Any

import pytest

from tests.service.ledger import data
from tests.service.ledger.data import NOW, WINDOW
from transforms.windows import bucket_of
from warehouse.ledger import Ledger, LedgerConstraint, claims, edges, imports, keys, projects
from warehouse.ledger.tables import IMPORT_ITEMS, URLS

pytestmark = pytest.mark.service


@pytest.fixture(scope="module")
def scene(ledger: Ledger) -> data.Scene:
    made = data.scene(ledger, sources=2)
    claims.claim_due(ledger, window=WINDOW, shard=0, shards=1, now=NOW, owner="test")
    return made


@pytest.fixture(scope="module")
def other(ledger: Ledger) -> data.Scene:
    """A project of another tenant."""
    return data.scene(ledger, sources=1)


@pytest.fixture(scope="module")
def ids(ledger: Ledger, scene: data.Scene, other: data.Scene) -> dict[str, Any]:
    """Rows that the attempts below refer to."""
    with ledger.transaction() as tx:
        run, page = tx.rows(
            "SELECT crawl_run_id, id FROM crawl_pages WHERE project_id = %(p)s ORDER BY id", {"p": scene.project.id}
        )[0]
        job, coalescing = tx.rows(
            "SELECT id, coalescing_key FROM page_fetch_jobs WHERE source_url_id = %(s)s", {"s": scene.source_ids[0]}
        )[0]
    run_of_import = imports.start_run(ledger, scene.project.id, provider="test", now=NOW)
    rule = projects.add_alert_rule(
        ledger,
        scene.project.id,
        name="r",
        event_types=[],
        channels=[{"channel": "email", "destination": "a@b.c"}],
        now=NOW,
    )
    other_rule = projects.add_alert_rule(
        ledger,
        other.project.id,
        name="r",
        event_types=[],
        channels=[{"channel": "email", "destination": "a@b.c"}],
        now=NOW,
    )
    key = hashlib.sha256(b"observation").digest()
    made = {
        "project": scene.project.id, "tenant": scene.tenant, "other": other.project.id, "other_tenant": other.tenant,
        "source": scene.source_ids[0], "target": scene.target_ids[0], "free": scene.target_ids[1], "edge": scene.backlink_ids[0],
        "other_edge": other.backlink_ids[0], "rule": rule, "other_rule": other_rule, "target_rule": scene.target_rule,
        "other_target_rule": other.target_rule, "run": run, "page": page, "job": job, "coalescing": coalescing,
        "import": run_of_import, "key": key, "id": int.from_bytes(key[:8], "big"), "now": NOW, "before": NOW - timedelta(days=1),
        "new": keys.uuid7(NOW), "hash": hashlib.sha256(b"x").digest(), "name": scene.project.name, "window": WINDOW.start,
        "event": keys.uuid7(NOW), "user": keys.uuid7(NOW), "user2": keys.uuid7(NOW), "organization": keys.uuid7(NOW),
        "profile": b"p" * 32,
    }  # fmt: skip
    identity = ledger.settings.identity_database
    with ledger.transaction() as tx:
        for sql in (
            "INSERT INTO alert_events (id, project_id, alert_rule_id, backlink_id, event_type, deduplication_key, payload, occurred_at) "
            "VALUES (%(event)s, %(project)s, %(rule)s, %(edge)s, 'backlink.lost', %(hash)s, '{}', %(now)s)",
            "INSERT INTO alert_deliveries (alert_event_id, channel, destination, destination_hash) VALUES (%(event)s, 'email', 'a@b.c', %(hash)s)",
            "INSERT INTO transactional_outbox (id, event_key, topic, partition_key, payload) VALUES (%(event)s, %(hash)s, 't', 'k', '{}')",
            "INSERT INTO backlink_observations (id, backlink_id, idempotency_key, observed_at, state, state_version) "
            "VALUES (%(id)s, %(edge)s, %(key)s, %(now)s, 'unknown', 1)",
            "INSERT INTO scheduled_job_runs (id, job_name, scheduled_for) VALUES (%(new)s, 'scheduler', %(now)s)",
            f"INSERT INTO {identity}.users (id, auth_subject, email) VALUES (%(user)s, 'sub', 'A@example.com')",
            f"INSERT INTO {identity}.organizations (id, name, slug) VALUES (%(organization)s, 'Org', 'org')",
            f"INSERT INTO {identity}.organization_invitations (id, organization_id, email, role, token_hash, invited_by_user_id, expires_at) "
            "VALUES (%(new)s, %(organization)s, 'guest@example.com', 'viewer', %(hash)s, %(user)s, %(now)s)",
        ):
            tx.execute(sql, made)
    imports.record_items(
        ledger, run_of_import, IMPORT_ITEMS.table([{"line_number": 7, "result": "invalid", "reason": "bad_url"}])
    )
    return made


_OBSERVATION = (
    "INSERT INTO backlink_observations (id, backlink_id, idempotency_key, observed_at, state, state_version, {columns}) "
    "VALUES (CAST(CONV('{key}', 16, 10) AS UNSIGNED), %(edge)s, UNHEX(RPAD('{key}', 64, '0')), %(now)s, {values})"
)


def observation(key: str, state: str, columns: str, values: str) -> str:
    return _OBSERVATION.format(key=key, columns=columns, values=f"'{state}', 1, {values}")


REFUSED = {
    # -- identity of rows
    "a project's name twice in a tenant": (
        "INSERT INTO projects (id, tenant_id, name) VALUES (%(new)s, %(tenant)s, %(name)s)", "projects_tenant_name_uniq"),
    "an edge twice": (
        "INSERT INTO backlinks (project_id, source_url_id, source_bucket, target_url_id, first_discovery_source, first_seen_at, next_check_at) "
        "VALUES (%(project)s, %(source)s, 0, %(target)s, 'api', %(now)s, %(now)s)", "backlinks_project_edge_uniq"),
    "a host twice, in capitals": (
        "INSERT INTO domains (hostname, registrable_domain) SELECT UPPER(hostname), UPPER(registrable_domain) FROM domains LIMIT 1",
        "domains_(hostname_uniq|lower_case)"),
    "a URL twice": (
        "INSERT INTO urls (domain_id, normalized_url, normalization_version, url_hash, scheme) "
        "SELECT domain_id, 'https://elsewhere.example/', 1, url_hash, 'https' FROM urls WHERE id = %(source)s", "urls_hash_uniq"),
    "a target rule twice": (
        "INSERT INTO project_targets (id, project_id, scope, domain_id, target_key) "
        "SELECT %(new)s, project_id, scope, domain_id, target_key FROM project_targets WHERE id = %(target_rule)s",
        "project_targets_active_identity_uniq"),
    "a run of a project and window twice": (
        "INSERT INTO crawl_runs (id, tenant_id, project_id, idempotency_key, run_type, scheduled_at) "
        "SELECT %(new)s, tenant_id, project_id, idempotency_key, run_type, scheduled_at FROM crawl_runs WHERE id = %(run)s",
        "crawl_runs_idempotency_uniq"),
    "a page of a run twice": (
        "INSERT INTO crawl_pages (tenant_id, project_id, crawl_run_id, source_url_id) "
        "SELECT tenant_id, project_id, crawl_run_id, source_url_id FROM crawl_pages WHERE id = %(page)s", "crawl_pages_run_url_uniq"),
    "a source fetched twice in a window": (
        "INSERT INTO page_fetch_jobs (source_url_id, fetch_profile_hash, validation_window, bucket, validation_deadline, coalescing_key) "
        "VALUES (%(source)s, %(profile)s, %(window)s, 0, %(now)s, %(coalescing)s)", "page_fetch_jobs_coalescing_uniq"),
    "an observation twice": (
        "INSERT INTO backlink_observations (id, backlink_id, idempotency_key, observed_at, state, state_version) "
        "VALUES (%(id)s, %(edge)s, %(key)s, %(now)s, 'unknown', 1)", "PRIMARY|observations_idempotency_uniq"),
    "an observation's id that is not of its key": (
        "INSERT INTO backlink_observations (id, backlink_id, idempotency_key, observed_at, state, state_version) "
        "VALUES (12345, %(edge)s, %(hash)s, %(now)s, 'unknown', 1)", "observations_id_is_of_the_key"),
    "an alert twice": (
        "INSERT INTO alert_events (id, project_id, event_type, deduplication_key, payload, occurred_at) "
        "VALUES (%(new)s, %(project)s, 'x', %(hash)s, '{}', %(now)s)", "alert_events_dedupe_uniq"),
    "a delivery twice": (
        "INSERT INTO alert_deliveries (alert_event_id, channel, destination, destination_hash) VALUES (%(event)s, 'email', 'a@b.c', %(hash)s)",
        "alert_delivery_destination_uniq"),
    "an outbox event twice": (
        "INSERT INTO transactional_outbox (id, event_key, topic, partition_key, payload) VALUES (%(new)s, %(hash)s, 't', 'k', '{}')",
        "transactional_outbox_event_uniq"),
    "a scheduler slot twice": (
        "INSERT INTO scheduled_job_runs (id, job_name, scheduled_for) VALUES (%(event)s, 'scheduler', %(now)s)", "scheduled_job_slot_uniq"),
    "a line of an import twice": (
        "INSERT INTO import_items (import_run_id, line_number, result) VALUES (%(import)s, 7, 'accepted')", "PRIMARY"),
    "a user's address twice, spelled otherwise": (
        "INSERT INTO {identity}.users (id, auth_subject, email) VALUES (%(user2)s, 'other', 'a@EXAMPLE.com')", "users_email_uniq"),
    "two pending invitations of one address": (
        "INSERT INTO {identity}.organization_invitations (id, organization_id, email, role, token_hash, invited_by_user_id, expires_at) "
        "VALUES (%(user2)s, %(organization)s, 'Guest@Example.com', 'viewer', %(key)s, %(user)s, %(now)s)", "one_pending_invitation_per_org_email"),
    # -- evidence
    "lost without complete evidence": (observation("a1" * 8, "lost", "evidence, lost_at", "'none', %(now)s"), "observations_lost_requires_complete"),
    "lost at this very check without complete evidence": (
        observation("a2" * 8, "lost", "evidence", "'none'"), "observations_lost_requires_complete"),
    "a LOST event after one miss": (
        observation("a3" * 8, "lost", "evidence, evidence_complete, transition_event, misses, lost_at", "'missing', 1, 'lost', 1, %(now)s"),
        "observations_lost_event_requires_two_misses"),
    "a LOST event of a find": (
        observation("a4" * 8, "lost", "evidence, evidence_complete, transition_event, misses, lost_at", "'found', 1, 'lost', 2, %(now)s"),
        "observations_lost_event_requires_a_miss"),
    "a LOST event from an earlier loss": (
        observation("a5" * 8, "lost", "evidence, transition_event, misses, lost_at", "'none', 'lost', 2, %(before)s"),
        "observations_lost_event_requires"),
    "complete evidence of nothing": (observation("a6" * 8, "unknown", "evidence, evidence_complete", "'none', 1"), "observations_complete_is_found_or_missing"),
    "a completeness of 2": (observation("a7" * 8, "lost", "evidence, evidence_complete, lost_at", "'missing', 2, %(before)s"), "observations_complete_bool"),
    "a NEW event without a find": (observation("a8" * 8, "live", "evidence, transition_event", "'none', 'new'"), "observations_new_requires_a_find"),
    "a lost edge without a time": ("UPDATE backlinks SET current_state = 'lost' WHERE id = %(edge)s", "backlinks_lost_has_a_time"),
    "a live edge that was never seen": ("UPDATE backlinks SET current_state = 'live' WHERE id = %(edge)s", "backlinks_live_was_seen"),
    "a truncated parse that is complete": (
        "INSERT INTO page_parse_results (manifest_id, content_snapshot_id, parser_version, manifest_schema_version, parse_complete, is_truncated) "
        "VALUES (%(new)s, 1, '1', 1, 1, 1)", "page_parse_results_truncated_is_not_complete"),
    "a 304 without a body to reuse": (
        "UPDATE page_fetch_jobs SET outcome = 'not_modified', status = 'completed', fetched_at = %(now)s WHERE id = %(job)s",
        "page_fetch_jobs_not_modified_has_a_body"),
    "a completed fetch without an outcome": ("UPDATE page_fetch_jobs SET status = 'completed' WHERE id = %(job)s", "page_fetch_jobs_completed_is_dated"),
    # -- who owns what
    "a run of another tenant's project": (
        "INSERT INTO crawl_runs (id, tenant_id, project_id, idempotency_key, run_type, scheduled_at) "
        "VALUES (%(new)s, %(other_tenant)s, %(project)s, %(hash)s, 'verification', %(now)s)", "crawl_runs_project_fk"),
    "a page in another project's run": (
        "INSERT INTO crawl_pages (tenant_id, project_id, crawl_run_id, source_url_id) VALUES (%(other_tenant)s, %(other)s, %(run)s, %(free)s)",
        "crawl_pages_run_fk"),
    "an edge that matches another project's rule": (
        "INSERT INTO backlink_target_matches (project_id, backlink_id, project_target_id, first_matched_at, last_matched_at) "
        "VALUES (%(project)s, %(edge)s, %(other_target_rule)s, %(now)s, %(now)s)", "backlink_target_matches_target_fk"),
    "an alert by another project's rule": (
        "INSERT INTO alert_events (id, project_id, alert_rule_id, event_type, deduplication_key, payload, occurred_at) "
        "VALUES (%(new)s, %(project)s, %(other_rule)s, 'x', %(key)s, '{}', %(now)s)", "alert_events_rule_fk"),
    "an alert about another project's edge": (
        "INSERT INTO alert_events (id, project_id, backlink_id, event_type, deduplication_key, payload, occurred_at) "
        "VALUES (%(new)s, %(project)s, %(other_edge)s, 'x', %(key)s, '{}', %(now)s)", "alert_events_backlink_fk"),
    "an import into another tenant's project": (
        "INSERT INTO import_runs (id, tenant_id, project_id, provider) VALUES (%(new)s, %(other_tenant)s, %(project)s, 'x')", "import_runs_project_fk"),
    "a discovery of another project's edge": (
        "INSERT INTO backlink_discoveries (tenant_id, project_id, backlink_id, discovery_key, source, first_discovered_at, last_discovered_at) "
        "VALUES (%(tenant)s, %(project)s, %(other_edge)s, %(key)s, 'api', %(now)s, %(now)s)", "backlink_discoveries_backlink_fk"),
    "a source that other rows stand on is deleted": ("DELETE FROM urls WHERE id = %(source)s", "fk"),
    # -- settings that must make sense
    "an interval of nothing": ("UPDATE projects SET recrawl_interval_seconds = 0 WHERE id = %(project)s", "projects_recrawl_positive"),
    "an interval over a week": ("UPDATE projects SET recrawl_interval_seconds = 604801 WHERE id = %(project)s", "projects_recrawl_at_most_a_week"),
    "a project that is active twice over": ("UPDATE projects SET is_active = 2 WHERE id = %(project)s", "projects_is_active_bool"),
    "a primary target of 2, past the unique key": ("UPDATE project_targets SET is_primary = 2 WHERE id = %(target_rule)s", "project_targets_booleans"),
    "a prefix rule without a prefix": (
        "UPDATE project_targets SET scope = 'url_prefix' WHERE id = %(target_rule)s", "project_targets_scope_names_its_target"),
    "an owner without an end": ("INSERT INTO shard_leases (name, owner, fence) VALUES ('x', 'me', 1)", "shard_leases_owner_has_an_end"),
    "a reject without a reason": (
        "INSERT INTO import_items (import_run_id, line_number, result) VALUES (%(import)s, 8, 'invalid')", "import_items_rejects_say_why"),
    "an import that drops rows": (
        "UPDATE import_runs SET status = 'completed', rows_received = 5, rows_accepted = 3 WHERE id = %(import)s", "import_runs_nothing_dropped"),
    "a value that does not fit": ("UPDATE backlinks SET current_state = 'gone' WHERE id = %(edge)s", "current_state"),
}  # fmt: skip


@pytest.mark.parametrize("promise", REFUSED)
def test_the_ledger_refuses(ledger: Ledger, ids: dict[str, Any], promise: str) -> None:
    sql, named = REFUSED[promise]
    with pytest.raises(LedgerConstraint) as caught, ledger.transaction() as tx:
        tx.execute(sql.replace("{identity}", ledger.settings.identity_database), ids)
    assert re.search(named, str(caught.value)), caught.value


def test_a_second_primary_target_replaces_the_first(ledger: Ledger, scene: data.Scene) -> None:
    url = "https://another-target.com/"
    (second,) = projects.add_targets(
        ledger, scene.project.id, [projects.TargetSpec("domain", url, is_primary=True)], now=NOW
    )
    (third,) = projects.add_targets(
        ledger, scene.project.id, [projects.TargetSpec("exact_url", url, is_primary=True)], now=NOW
    )
    with ledger.transaction() as tx:
        primary = "SELECT id FROM project_targets WHERE project_id = %(p)s AND is_primary"
        assert tx.rows(primary, {"p": scene.project.id}) == [(third,)]
    with pytest.raises(LedgerConstraint, match="one_primary_target_per_project"), ledger.transaction() as tx:
        tx.execute("UPDATE project_targets SET is_primary = TRUE WHERE id = %(id)s", {"id": second})
    # a removed one does not stand in the way
    assert projects.remove_target(ledger, scene.project.id, third, now=NOW)
    with ledger.transaction() as tx:
        tx.execute("UPDATE project_targets SET is_primary = TRUE WHERE id = %(id)s", {"id": second})


def test_an_accepted_invitation_leaves_room_for_the_next(ledger: Ledger, ids: dict[str, Any]) -> None:
    identity = ledger.settings.identity_database
    with ledger.transaction() as tx:
        tx.execute(f"UPDATE {identity}.organization_invitations SET status = 'accepted' WHERE id = %(new)s", ids)
        tx.execute(
            f"INSERT INTO {identity}.organization_invitations (id, organization_id, email, role, token_hash, invited_by_user_id, expires_at) "
            "VALUES (%(user2)s, %(organization)s, 'guest@example.com', 'viewer', %(key)s, %(user)s, %(now)s)",
            ids,
        )


def test_buckets_are_those_of_the_windows(ledger: Ledger) -> None:
    names = [f"host{n}.example" for n in range(200)] + ["xn--bcher-kva.example", "127.0.0.1", "[::1]"]
    rows = [
        {
            "url": f"https://{name}/",
            "url_hash": hashlib.sha256(name.encode()).digest(),
            "host": name,
            "registrable_domain": name,
        }
        for name in names
    ]
    edges.register_urls(ledger, URLS.table(rows))
    with ledger.transaction() as tx:
        found = dict(tx.rows("SELECT hostname, bucket FROM domains"))
    assert {name: found[name] for name in names} == {name: bucket_of(name) for name in names}


@pytest.fixture
def both(ledger: Ledger) -> tuple[data.Scene, data.Scene]:
    """Two projects that watch the same pages."""
    first = data.scene(ledger, sources=2)
    second = data.scene(ledger, sources=1)
    data.register(second, list(zip(first.source_ids, first.target_ids, strict=True)))
    return first, second


def test_deleting_a_project_leaves_others_alone(ledger: Ledger, both: tuple[data.Scene, data.Scene]) -> None:
    gone, stays = both
    claims.claim_due(ledger, window=WINDOW, shard=0, shards=1, now=NOW, owner="test")
    assert projects.delete_project(ledger, gone.project.id, actor="test", now=NOW)
    counts = {}
    with ledger.transaction() as tx:
        for table in ("backlinks", "crawl_runs", "crawl_pages", "project_targets", "backlink_discoveries"):
            sql = f"SELECT SUM(project_id = %(gone)s), SUM(project_id = %(stays)s) FROM {table}"
            row = tx.row(sql, {"gone": gone.project.id, "stays": stays.project.id})
            assert row is not None
            counts[table] = tuple(map(int, row))
    assert counts == {
        "backlinks": (0, 3),
        "crawl_runs": (0, 1),
        "crawl_pages": (0, 3),
        "project_targets": (0, 1),
        "backlink_discoveries": (0, 3),
    }
    claim = claims.claim_due(ledger, window=WINDOW, shard=0, shards=1, now=NOW, owner="test")
    assert gone.project.id not in claim.expected["project_id"].to_pylist()
    assert set(gone.source_ids) <= set(claim.due["source_url_id"].to_pylist()), "the other project still wants them"


def test_a_project_with_alerts_can_be_deleted_by_hand_too(
    ledger: Ledger, scene: data.Scene, ids: dict[str, Any]
) -> None:
    """The published schema refused it: its alert rules could not go while an alert event named them."""
    with ledger.transaction() as tx:
        assert tx.execute("DELETE FROM projects WHERE id = %(project)s", ids) == 1
        assert tx.row("SELECT COUNT(*) FROM alert_events WHERE project_id = %(project)s", ids) == (0,)
        left = tx.row("SELECT COUNT(*) FROM alert_deliveries WHERE alert_event_id = %(event)s", ids)
        assert left == (0,)
