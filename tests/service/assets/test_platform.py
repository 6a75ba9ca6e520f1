"""What stages are handed: leases that live as long as their work, and bodies that are never uploaded unnoticed."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from assets import platform as platforms
from assets.page_fetches import PartitionSink
from assets.partition import WindowShard
from assets.platform import Platform
from crawl.config import CrawlSettings
from crawl.ports import FetchResult, FetchTask
from transforms.clock import WallClock
from transforms.reasons import Outcome, Reason
from transforms.windows import Window
from warehouse.clickhouse.config import ClickHouseSettings
from warehouse.ledger import LeaseHeld
from warehouse.ledger.config import LedgerSettings
from warehouse.objects.config import ObjectStoreSettings
from warehouse.snapshots import StoredSnapshot

pytestmark = pytest.mark.service


@pytest.fixture
def platform(ledger_settings: LedgerSettings, tmp_path: Path) -> Iterator[Platform]:
    made = Platform(
        ledger_settings=ledger_settings,
        clickhouse_settings=ClickHouseSettings(),
        object_settings=ObjectStoreSettings(url=str(tmp_path / "objects")),
        crawl=CrawlSettings(),
        clock=WallClock(),
        root=tmp_path,
        work_folder=tmp_path / "work",
        shards=1,
        window_length=timedelta(hours=1),
    )
    yield made
    made.close()


def leased_until(platform: Platform, name: str) -> datetime:
    with platform.ledger.transaction() as tx:
        row = tx.row("SELECT leased_until FROM shard_leases WHERE name = %(name)s", {"name": name})
    assert row is not None
    return row[0]


def test_a_lease_is_extended_while_its_work_lasts(platform: Platform, monkeypatch: pytest.MonkeyPatch) -> None:
    """A fold of minutes commits nothing in between: its lease must not run out under it."""
    monkeypatch.setattr(platforms, "LEASE_TTL_S", 2.0)
    with platform.lease("fold"):
        first = leased_until(platform, "fold")
        deadline = time.monotonic() + 20
        while leased_until(platform, "fold") <= first:
            assert time.monotonic() < deadline, "the lease was not extended"
            time.sleep(0.05)
        with pytest.raises(LeaseHeld), platform.lease("fold"):
            pass
    with platform.lease("fold"):
        pass


def test_a_body_is_noted_as_pending_before_it_is_uploaded(platform: Platform, monkeypatch: pytest.MonkeyPatch) -> None:
    body = b"<p>a page whose upload fails"
    digest = hashlib.sha256(body).digest()

    def no_space(bodies: Sequence[bytes]) -> list[StoredSnapshot]:
        raise OSError("no space left")

    monkeypatch.setattr(platform.snapshots, "put_many", no_space)
    at = WindowShard(Window(datetime(2026, 12, 1, 10, tzinfo=UTC)), 0)
    result = FetchResult(
        FetchTask(key=1, url="https://a.test/"), Outcome.FETCHED, Reason.OK, platform.clock.now(), body=body,
        content_hash=digest,
    )  # fmt: skip
    with platform.lease("shard:0") as lease, pytest.raises(OSError, match="no space"):
        PartitionSink(platform, at, lease).commit([result])
    with platform.ledger.transaction() as tx:
        rows = tx.rows(
            "SELECT status, object_key FROM page_content_snapshots WHERE content_hash = %(hash)s", {"hash": digest}
        )
    assert rows == [("pending", f"snapshots/{digest.hex()[:2]}/{digest.hex()[2:4]}/{digest.hex()}.zst")]
