"""What a stage is handed: the stores, the clock and the crawl settings, opened when first used.

Here: wiring of the rooms below into one object. Not here: settings from the environment (`orchestration.settings`).
"""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property
from pathlib import Path

import stamina
from clickhouse_connect.driver.client import Client

from crawl.config import CrawlSettings
from crawl.ports import OriginState, RobotsRecord
from transforms.clock import Clock
from transforms.errors import TransientError
from transforms.windows import Window
from warehouse import clickhouse
from warehouse.clickhouse.config import ClickHouseSettings
from warehouse.datasets import DatasetStore
from warehouse.ledger import Ledger, keys, leases
from warehouse.ledger.config import LedgerSettings
from warehouse.ledger.origins import LedgerOriginBook
from warehouse.objects import ObjectStore, open_store
from warehouse.objects.config import ObjectStoreSettings
from warehouse.snapshots import SnapshotStore

LEASE_TTL_S = 300.0
"""How long a lease outlives an owner that the database server still sees connected but that does nothing any more."""
HEARTBEATS = 4
"""A living owner extends its lease this many times within that span, however long its work takes."""


@dataclass
class Platform:
    """One machine's view of the whole. Cheap to make; each store is opened on first use and kept."""

    ledger_settings: LedgerSettings
    clickhouse_settings: ClickHouseSettings
    object_settings: ObjectStoreSettings
    crawl: CrawlSettings
    clock: Clock
    root: Path
    """Relative paths in settings start here."""
    work_folder: Path
    """Scratch and logs of dbt; below the stack folder."""
    shards: int
    window_length: timedelta
    tenant: str = "default"

    @cached_property
    def ledger(self) -> Ledger:
        return Ledger(self.ledger_settings)

    @cached_property
    def objects(self) -> ObjectStore:
        return open_store(self.object_settings, self.root)

    @cached_property
    def datasets(self) -> DatasetStore:
        return DatasetStore(self.objects)

    @cached_property
    def snapshots(self) -> SnapshotStore:
        return SnapshotStore(self.objects)

    @cached_property
    def clickhouse(self) -> Client:
        client = clickhouse.connect(self.clickhouse_settings)
        clickhouse.ensure_schema(client, self.clickhouse_settings)
        return client

    @property
    def tenant_id(self) -> bytes:
        return keys.tenant_id(self.tenant)

    def origin_book(self, lease: leases.Lease) -> LedgerOriginBook:
        """What is remembered of origins between windows (`crawl.ports.OriginBook`), written under the shard's fence."""
        return LedgerOriginBook(
            self.ledger,
            state=OriginState,
            robots=RobotsRecord,
            lease=lease,
            began=self.clock.now() if lease.is_orphan else None,
        )

    @property
    def owner(self) -> str:
        """Who holds a lease: the process, on its machine."""
        return f"{socket.gethostname()}:{os.getpid()}"

    def window(self, key: str) -> Window:
        return Window.from_key(key, self.window_length)

    @contextmanager
    def lease(self, name: str, *, wait_s: float = 0.0) -> Iterator[leases.Lease]:
        """Own a name (a shard of hosts, the fold) for as long as the block runs; a killed owner's is free at once.

        It is extended in the background while the block runs: a fold may take longer than the lease lasts. Raises
        `LeaseHeld` (transient) when somebody else still owns it after `wait_s` seconds.
        """
        lease = None
        for attempt in stamina.retry_context(
            on=leases.LeaseHeld, attempts=None, timeout=wait_s or 0.001, wait_initial=0.5, wait_max=5.0
        ):
            with attempt:
                lease = leases.acquire_shard(
                    self.ledger, name, owner=self.owner, ttl_s=LEASE_TTL_S, now=self.clock.now()
                )
        assert lease is not None
        done = threading.Event()
        beat = threading.Thread(target=self._keep, args=(lease, done), name=f"lease {name}", daemon=True)
        beat.start()
        try:
            yield lease
        finally:
            done.set()
            beat.join()
            leases.release(self.ledger, lease)

    def _keep(self, lease: leases.Lease, done: threading.Event) -> None:
        """Extend a lease until its block ends, or somebody else has it: then the next commit is refused by its fence. Its
        lock is taken again soon after the server restarted."""
        due = time.monotonic() + lease.ttl_s / HEARTBEATS
        while not done.wait(leases.RESTART_GRACE_S / 4):
            try:
                leases.hold_again(self.ledger, lease)
                if time.monotonic() < due:
                    continue
                leases.extend(self.ledger, lease, now=self.clock.now())
                due = time.monotonic() + lease.ttl_s / HEARTBEATS
            except leases.StaleFence:
                return
            except TransientError:
                continue  # the server is away: the work itself will say so

    def close(self) -> None:
        """Close what was opened. Safe to call twice."""
        opened = self.__dict__
        if "clickhouse" in opened:
            opened.pop("clickhouse").close()
        if "ledger" in opened:
            opened.pop("ledger").close()
