"""What the processes of a soak agree on: hosts, pages, shards, settings. Here: values and their file. Not here: what
happens to them.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from datetime import timedelta
from pathlib import Path

from assets.platform import Platform
from crawl.config import CrawlSettings
from orchestration import resources
from orchestration.settings import Settings
from transforms.windows import shard_of_domain
from warehouse.ledger.config import LedgerSettings
from warehouse.local.config import StackSettings
from warehouse.objects.config import ObjectStoreSettings

TARGET = "https://target-of-the-soak.test/"


@dataclass(frozen=True)
class Scene:
    """One soak. Every host has its own registrable domain, `s<n>.test`, so hosts lie in different shards; every fourth
    is asked over TLS."""

    folder: str
    hosts: int
    pages: int
    """Pages of each host; all of them fall due once a window."""
    shards: int
    window_s: int
    gap_s: float

    @property
    def path(self) -> Path:
        return Path(self.folder)

    @property
    def env_file(self) -> Path:
        return self.path / "env"

    @property
    def store_down(self) -> Path:
        """While this file is there, the object store does not answer."""
        return self.path / "store-is-down"

    @property
    def urls(self) -> list[str]:
        return [f"{origin_of(host)}/page/{page}" for host in range(self.hosts) for page in range(self.pages)]

    def write(self) -> None:
        (self.path / "scene.json").write_text(json.dumps(asdict(self)))

    @classmethod
    def read(cls, folder: Path) -> Scene:
        return cls(**json.loads((folder / "scene.json").read_text()))

    def settings(self, *, mysql_port: int, web_port: int, ca_file: str) -> Settings:
        """The flow's settings with its own manners (1 s gap, one request an origin, commits every 2 s); only the times
        after which something counts as failed are short, so that many failures fit into the soak."""
        return Settings(
            ledger=LedgerSettings(port=mysql_port),
            objects=ObjectStoreSettings(url=str(self.path / "objects")),
            stack=StackSettings(folder=self.path / "stack"),
            shards=self.shards,
            crawl=CrawlSettings(
                test_hosts={"*.test": f"127.0.0.1:{web_port}"},
                test_ca_file=ca_file,
                origin_gap_s=self.gap_s,
                connect_timeout_s=3.0,
                first_byte_timeout_s=2.0,
                total_timeout_s=3.0,
                retry_base_s=0.5,
                origin_backoff_base_s=2.0,
                robots_error_ttl_s=10,
            ),
            _env_file=None,
        )

    def platform(self, settings: Settings) -> Platform:
        """As `orchestration.resources` makes it; windows may be shorter than its settings allow."""
        return replace(resources.platform(settings), window_length=timedelta(seconds=self.window_s))


def host_name(host: int) -> str:
    return f"www.s{host}.test"


def origin_of(host: int) -> str:
    return f"{'https' if host % 4 == 3 else 'http'}://{host_name(host)}"


def shard_of_host(name: str, shards: int) -> int:
    """Shard of `www.s<n>.test`."""
    return shard_of_domain(name.removeprefix("www."), shards)
