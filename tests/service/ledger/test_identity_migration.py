"""A change of the rules of URL identity, on the real server: nothing is doubled, lost or checked under two names.

Version 2 is made up here and handed in: it folds `/index.html` into `/`, calls hosts `moved.…` `here.…`, and refuses every
URL with `forbidden` in it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import polars as pl
import pyarrow as pa
import pytest

from tests.service.ledger import data
from tests.service.ledger.data import NOW, WINDOW, next_window
from tests.service.ledger.test_crash import killed_at, once
from transforms.urls import IDENTITY_COLUMNS, Normalization, identify_many, url_hash
from warehouse.ledger import Ledger, LedgerUnavailable, claims, edges, lookups, projects
from warehouse.ledger.identities import IdentityVersionMismatch
from warehouse.ledger.identity_migration import Example, Outcome, migrate_identities, preview
from warehouse.ledger.writeback import apply_batch

pytestmark = pytest.mark.service

DAY = timedelta(days=1)


def folded(identity: str | None) -> str | None:
    if identity is None or "forbidden" in identity:
        return None
    return identity.replace("/index.html", "/").replace("://moved.", "://here.")


def identify_2(spellings: Sequence[str | None]) -> pa.Table:
    first = identify_many(spellings)
    names = [folded(identity) for identity in first["identity"].to_pylist()]
    again = pl.DataFrame(pl.from_arrow(identify_many(names)))
    old = pl.DataFrame(pl.from_arrow(first))
    refused = [a is not None and b is None for a, b in zip(old["identity"], names, strict=True)]
    hashes = [None if name is None else url_hash(name, 2) for name in names]
    return (
        again.with_columns(
            raw=old["raw"],
            url_hash=pl.Series(hashes, dtype=pl.Binary),
            reason=pl.when(pl.Series(refused, dtype=pl.Boolean)).then(pl.lit("forbidden")).otherwise(old["reason"]),
        )
        .to_arrow()
        .cast(IDENTITY_COLUMNS)
    )


RULES_2 = Normalization(2, identify_2)


@dataclass
class World:
    """A ledger at version 1 with one project, and what must come of it."""

    one: Ledger
    two: Ledger
    """The same database, driven by code of version 2."""
    scene: data.Scene
    tag: str
    ids: dict[str, int] = field(default_factory=dict)
    edges: dict[tuple[str, str], int] = field(default_factory=dict)

    def url(self, name: str) -> str:
        host, _, path = name.partition("/")
        return f"https://{host}-{self.tag}.org/{path}"

    def query(self, sql: str, **params: object) -> list[tuple[Any, ...]]:
        with self.one.transaction() as tx:
            return tx.rows(sql, params)

    def migrate(self, **options: Any) -> Outcome:
        return migrate_identities(self.two, actor="test", clock=lambda: NOW + DAY, **options)


URLS = (
    "same/page", "alone/index.html", "pair/index.html", "pair/", "late/", "late/index.html", "moved.host/a", "bad/forbidden",
    "target/", "target/index.html",
)  # fmt: skip
EDGES = (
    ("same/page", "target/"), ("alone/index.html", "target/"),
    ("pair/index.html", "target/"), ("pair/", "target/"),  # one edge under version 2
    ("late/", "target/"), ("late/index.html", "target/index.html"),  # and these
    ("moved.host/a", "target/index.html"), ("bad/forbidden", "target/"),
)  # fmt: skip


@pytest.fixture
def world(fresh_ledger: Ledger) -> Iterator[World]:
    with Ledger(fresh_ledger.settings, rules=RULES_2) as two:
        made = data.scene(fresh_ledger, sources=0)
        tag = made.project.name.removeprefix("project ")
        found = World(fresh_ledger, two, made, tag)
        for name in URLS:  # one by one: ids rise in this order
            (found.ids[name],) = data.url_ids(fresh_ledger, [found.url(name)])
        pairs = [(found.ids[source], found.ids[target]) for source, target in EDGES]
        found.edges = dict(zip(EDGES, data.register(made, pairs), strict=True))
        projects.add_targets(
            fresh_ledger,
            made.project.id,
            [
                projects.TargetSpec("exact_url", found.url("target/index.html")),
                projects.TargetSpec("exact_url", found.url("target/")),
                projects.TargetSpec("url_prefix", found.url("moved.host/shop/")),
            ],
            now=NOW,
        )
        yield found


def checked(world: World, ledger: Ledger, at: datetime, evidence: Callable[[dict[str, Any]], str]) -> None:
    """One window: every due edge is claimed, judged and written back."""
    window = next_window(WINDOW, round((at - NOW) / WINDOW.length))
    claim = claims.claim_due(ledger, window=window, shard=0, shards=1, now=at, owner="test")
    rows = claim.expected.to_pylist()
    observed = [data.observation_row(edge, at, evidence=evidence(edge), version=round(at.timestamp())) for edge in rows]
    states = [
        data.state_row(row, "live", event="new" if row["evidence"] == "found" else "none", last_live_at=NOW)
        for row in observed
    ]
    apply_batch(ledger, data.batch(states, observed), now=at)


def final(world: World) -> None:
    """What must stand after the migration, whatever happened on the way."""
    u, e = world.ids, world.edges
    rows = world.query("SELECT id, normalized_url, normalization_version, url_hash FROM urls ORDER BY id")
    names = {int(row[0]): row[1:] for row in rows}

    def stands(name: str, now_called: str) -> None:
        url = world.url(now_called)
        assert names[u[name]] == (url, 2, url_hash(url, 2)), name

    stands("same/page", "same/page")
    stands("alone/index.html", "alone/")
    stands("pair/", "pair/")
    stands("late/", "late/")
    stands("target/", "target/")
    here = world.url("moved.host/a").replace("moved.", "here.")
    assert names[u["moved.host/a"]] == (here, 2, url_hash(here, 2))
    for gone in ("pair/index.html", "late/index.html", "target/index.html", "bad/forbidden"):
        assert names[u[gone]] == (world.url(gone), 1, url_hash(world.url(gone), 1))
    verdicts = {
        int(url): (verdict, survivor)
        for url, verdict, survivor in world.query(
            "SELECT url_id, verdict, survivor_id FROM url_identity_changes WHERE applied_at IS NOT NULL"
        )
    }
    assert verdicts == {
        u["alone/index.html"]: ("renamed", None),
        u["moved.host/a"]: ("renamed", None),
        u["pair/index.html"]: ("merged", u["pair/"]),
        u["late/index.html"]: ("merged", u["late/"]),
        u["target/index.html"]: ("merged", u["target/"]),
        u["bad/forbidden"]: ("refused", None),
    }
    kept = world.query("SELECT id, source_url_id, target_url_id, is_active FROM backlinks ORDER BY id")
    assert kept == [
        (e["same/page", "target/"], u["same/page"], u["target/"], 1),
        (e["alone/index.html", "target/"], u["alone/index.html"], u["target/"], 1),
        (e["pair/index.html", "target/"], u["pair/"], u["target/"], 1),  # the older edge of the two
        (e["late/", "target/"], u["late/"], u["target/"], 1),
        (e["moved.host/a", "target/index.html"], u["moved.host/a"], u["target/"], 1),
        (e["bad/forbidden", "target/"], u["bad/forbidden"], u["target/"], 0),
    ]
    assert world.query("SELECT loser_id, survivor_id FROM backlink_merges ORDER BY loser_id") == [
        (e["pair/", "target/"], e["pair/index.html", "target/"]),
        (e["late/index.html", "target/index.html"], e["late/", "target/"]),
    ]
    # Every check of every edge is still there, and hangs on an edge that is.
    assert world.query(
        "SELECT COUNT(*), COUNT(DISTINCT o.id) FROM backlink_observations AS o JOIN backlinks AS b ON b.id = o.backlink_id"
    ) == [(16, 16)]
    assert world.query(
        "SELECT COUNT(*) FROM backlink_observations WHERE backlink_id = %(id)s", id=e["late/", "target/"]
    ) == [(4,)]
    buckets = world.query(
        "SELECT COUNT(*) FROM backlinks AS b JOIN urls AS u ON u.id = b.source_url_id JOIN domains AS d ON d.id = u.domain_id "
        "WHERE b.source_bucket <> d.bucket"
    )
    assert buckets == [(0,)]
    assert world.query("SELECT version, from_version, target_version, phase FROM url_identity_state") == [
        (2, None, None, "steady")
    ]
    audit = world.query("SELECT action, subject FROM audit_log WHERE action LIKE 'url.%%' ORDER BY subject")
    assert audit == sorted(
        [
            *(("url.merged", f"url {u[a]} into {u[b]}") for a, b in (
                ("pair/index.html", "pair/"), ("late/index.html", "late/"), ("target/index.html", "target/"))),
            ("url.refused", f"url {u['bad/forbidden']}"),
        ],
        key=lambda row: row[1],
    )  # fmt: skip
    events = world.query("SELECT JSON_VALUE(payload, '$.backlink_id'), JSON_VALUE(payload, '$.merged_into') FROM transactional_outbox "
                         "WHERE JSON_VALUE(payload, '$.event') = 'merged' ORDER BY 1")  # fmt: skip
    assert sorted(events) == sorted(
        [
            (str(e["pair/", "target/"]), str(e["pair/index.html", "target/"])),
            (str(e["late/index.html", "target/index.html"]), str(e["late/", "target/"])),
        ]
    )
    rules = projects.target_rules(world.two, [world.scene.project.id]).to_pylist()
    assert sorted((rule["scope"], rule["url"]) for rule in rules if rule["url"]) == [
        ("exact_url", world.url("target/")),  # two rules were one
        ("url_prefix", world.url("moved.host/shop/").replace("moved.", "here.")),
    ]


def with_history(world: World) -> None:
    """Two checks of each edge; the younger of each pair that becomes one has the newer check."""
    checked(world, world.one, NOW, lambda _: "found")
    with world.one.transaction() as tx:
        tx.execute("UPDATE backlinks SET next_check_at = %(now)s", {"now": NOW})
    checked(world, world.one, NOW + 2 * WINDOW.length, lambda _: "none")


def test_a_preview_says_what_would_happen_and_changes_nothing(world: World) -> None:
    before = world.query("SELECT id, normalized_url, url_hash FROM urls ORDER BY id")
    seen = preview(world.two, batch=3)
    assert (seen.from_version, seen.to_version) == (1, 2)
    # the domain rule of the scene and the prefix rule each brought a URL of their own
    assert (seen.unchanged, seen.renamed, seen.merged, seen.refused) == (5, 3, 3, 1)
    assert seen.examples == (
        Example("merged", world.url("pair/index.html"), world.url("pair/"), 1),
        Example("merged", world.url("late/index.html"), world.url("late/"), 1),
        Example("merged", world.url("target/index.html"), world.url("target/"), 2),
        Example("refused", world.url("bad/forbidden"), "forbidden", 1),
        Example("renamed", world.url("alone/index.html"), world.url("alone/"), 1),
        Example("renamed", world.url("moved.host/a"), world.url("moved.host/a").replace("moved.", "here."), 1),
        Example("renamed", world.url("moved.host/shop/"), world.url("moved.host/shop/").replace("moved.", "here."), 0),
    )
    assert world.query("SELECT id, normalized_url, url_hash FROM urls ORDER BY id") == before
    assert world.query("SELECT COUNT(*) FROM url_identity_changes") == [(0,)]
    assert preview(world.one) == Outcome(1, 1)


def test_code_of_another_version_is_refused(world: World) -> None:
    rows = edges.urls_of(identify_2([world.url("new/")]))
    with pytest.raises(
        IdentityVersionMismatch, match=r"version 1, this code's rules are version 2: run `backlinks identities"
    ):
        edges.register_urls(world.two, rows)
    with pytest.raises(IdentityVersionMismatch):
        claims.claim_due(world.two, window=WINDOW, shard=0, shards=1, now=NOW, owner="test")
    world.migrate()
    with pytest.raises(IdentityVersionMismatch, match="version 2, this code knows version 1: update the code"):
        data.url_ids(world.one, [world.url("new/")])
    with pytest.raises(IdentityVersionMismatch, match="update the code"):
        migrate_identities(world.one, actor="test", clock=lambda: NOW)


def test_ids_and_history_are_kept_and_what_is_one_is_merged(world: World) -> None:
    with_history(world)
    done = world.migrate()
    assert (done.unchanged, done.renamed, done.merged, done.refused, done.edges_merged) == (5, 3, 3, 1, 2)
    shop = world.query("SELECT verdict FROM url_identity_changes WHERE new_url LIKE '%%/shop/'")
    assert shop == [("renamed",)]
    with world.one.transaction() as tx:  # not in `final`
        tx.execute("DELETE FROM url_identity_changes WHERE new_url LIKE '%%/shop/'")
    final(world)
    # A second run has nothing to do.
    assert world.migrate().edges_merged == 2
    # The edge that stays stands as the last of the two that was checked, and is as old as the older one.
    state = world.query(
        "SELECT current_state, last_evidence, ever_live, first_seen_at FROM backlinks WHERE id = %(id)s",
        id=world.edges["late/", "target/"],
    )
    assert state == [("live", "none", 1, NOW)]
    # The whole chain of evidence is found under the one name.
    (story,) = lookups.explain(world.two, source=world.url("late/"), target=world.url("target/"))
    assert story.jobs.num_rows == 4  # two fetches of each spelling


def test_checks_go_on_under_the_new_names_while_rows_are_still_rewritten(world: World) -> None:
    names: list[set[tuple[str, str]]] = []

    def look(phase: str, done: int, _: int) -> None:
        if phase == "rewriting":
            with world.two.transaction() as tx:
                tx.execute("UPDATE backlinks SET next_check_at = %(now)s", {"now": NOW})
            claim = claims.claim_due(
                world.two,
                window=next_window(WINDOW, len(names)),
                shard=0,
                shards=1,
                now=NOW + len(names) * WINDOW.length,
                owner="test",
            )
            names.append(
                set(
                    zip(claim.expected["source_url"].to_pylist(), claim.expected["target_url"].to_pylist(), strict=True)
                )
            )

    world.migrate(progress=look, batch=3)
    target, here = world.url("target/"), world.url("moved.host/a").replace("moved.", "here.")
    wanted = {(world.url(name), target) for name in ("same/page", "alone/", "pair/", "late/")} | {(here, target)}
    assert len(names) == 5  # twelve URLs in four batches, and the end
    assert all(each == wanted for each in names)


def test_a_killed_migration_is_finished_by_the_next_run(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    with_history(world)
    once(world.two, monkeypatch)
    statement, kills = 1, 0
    while True:
        with killed_at(monkeypatch, world.one.settings, statement) as reached:
            try:
                world.migrate(batch=2, edge_budget=1)
            except LedgerUnavailable:
                kills += 1
                statement += 7
                continue
            assert not reached()
            break
    assert kills > 8
    with world.one.transaction() as tx:
        tx.execute("DELETE FROM url_identity_changes WHERE new_url LIKE '%%/shop/'")
    final(world)


def registered(world: World, names: Sequence[str]) -> list[int]:
    """URL ids as code of version 2 registers them."""
    rows = edges.urls_of(identify_2([world.url(name) for name in names]))
    return edges.register_urls(world.two, rows)["url_id"].to_pylist()


def test_registrations_in_the_middle_double_nothing(world: World) -> None:
    """Registrations of old code while it is planned, of new code while it is rewritten, batch by batch."""
    old_code = iter(range(100))
    seen: list[list[bool]] = []

    def meanwhile(phase: str, _: int, __: int) -> None:
        if phase == "planning":
            number = next(old_code)
            if number < 4:
                source, target = data.url_ids(
                    world.one, [world.url(f"during{number}/index.html"), world.url("target/index.html")]
                )
                data.register(world.scene, [(source, target)])
            return
        names = [
            world.url(name)
            for name in (
                "same/page",
                "alone/index.html",
                "pair/index.html",
                "late/index.html",
                "during0/",
                "during3/index.html",
            )
        ]
        ids = edges.register_urls(world.two, edges.urls_of(identify_2([*names, world.url("target/index.html")])))[
            "url_id"
        ].to_pylist()
        table = edges.EDGES.table(
            [
                {
                    "project_id": world.scene.project.id,
                    "source_url_id": i,
                    "target_url_id": ids[-1],
                    "any_target": False,
                }
                for i in ids[:-1]
            ]
        )
        assert world.query("SELECT COUNT(*) FROM urls AS u WHERE u.normalized_url LIKE '%%//during%%'") == [(4,)]
        seen.append(edges.register_edges(world.two, table, source="api", now=NOW)["is_new"].to_pylist())

    world.migrate(progress=meanwhile, batch=3)
    assert len(seen) > 4
    assert not any(any(each) for each in seen)  # each edge is known from the first moment on
    doubled = world.query(
        "SELECT COUNT(*) FROM (SELECT b.project_id, b.source_url_id, b.target_url_id, COUNT(*) AS n FROM backlinks AS b "
        "GROUP BY 1, 2, 3 HAVING n > 1) AS d"
    )
    assert doubled == [(0,)]
    assert world.query("SELECT COUNT(*) FROM backlinks") == [(10,)]
