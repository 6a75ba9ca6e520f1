"""Settings of the crawler. Here: limits and manners, typed. Not here: where the stores are."""

from __future__ import annotations

from pydantic import BaseModel, Field


class CrawlSettings(BaseModel):
    """Manners and limits. Defaults are what a stranger's server may expect of us."""

    user_agent_product: str = Field("BacklinksMonitor", description="product token, matched against robots.txt groups")
    contact_url: str = Field(
        "https://github.com/backlinks-monitor/backlinks#crawler",
        description="where a host owner finds out who we are and how to stop us",
    )
    read_ahead: int = Field(
        20_000,
        ge=1,
        description="pages that wait in memory (about 1 kB each); more are read while a worker would be idle",
    )
    max_in_flight: int = Field(100, ge=1, description="exchanges under way at once, over all origins")
    origin_gap_s: float = Field(1.0, ge=0, description="least time between two request starts at one origin")
    foreign_notice_s: float = Field(
        5.0,
        gt=0,
        description="a hop to a host of another shard starts so much later than a gap from now: its owner asks for such "
        "slots at least this often, and starts nothing while it has not heard for longer",
    )
    origin_max_in_flight: int = Field(1, ge=1, description="requests at one origin at once")
    max_crawl_delay_s: float = Field(30.0, description="a longer Crawl-delay is capped here")
    connect_timeout_s: float = 10.0
    first_byte_timeout_s: float = 20.0
    total_timeout_s: float = 60.0
    max_redirects: int = 5
    redirect_ttl_s: float = Field(
        7 * 24 * 3600.0, ge=0, description="how long it is believed where a page's own redirector leads"
    )
    max_header_bytes: int = 64 * 1024
    max_body_bytes: int = Field(
        10 * 1024 * 1024, description="decoded; beyond it the body is kept and marked truncated"
    )
    large_bodies: int = Field(
        32, ge=1, description="bodies beyond 1 MiB that are read at once, over all origins: what bounds memory"
    )
    max_expansion_ratio: float = Field(200.0, description="decoded over wire bytes, looked at above 1 MiB decoded")
    allowed_ports: tuple[int, ...] = (80, 443, 8080, 8443)
    robots_ttl_s: int = 24 * 3600
    robots_error_ttl_s: int = Field(
        600, description="how long an unreachable robots.txt is believed before it is asked again"
    )
    robots_memory_bytes: int = Field(
        256 * 1024 * 1024, ge=0, description="of robots.txt files that are kept in memory; the largest go first"
    )
    window_budget_s: float | None = Field(
        None, description="after this many seconds the rest of a batch is coverage debt"
    )
    max_attempts: int = Field(3, ge=1, description="attempts within one window for failures that a retry may help")
    retry_base_s: float = Field(
        2.0, ge=0, description="wait before the second attempt; doubled for each further one, with jitter"
    )
    origin_backoff_base_s: float = Field(
        30.0, gt=0, description="back-off of a whole origin after 429 or 503 without Retry-After"
    )
    origin_backoff_cap_s: float = Field(3600.0, gt=0, description="longest such back-off")
    max_backoff_wait_s: float = Field(
        60.0,
        ge=0,
        description="an origin that backs off for longer than this is not waited for: its pages are deferred",
    )
    origin_error_limit: int = Field(
        5, ge=1, description="connections that fail in a row before the whole origin is backed off"
    )
    starvation_s: float = Field(1800.0, gt=0, description="an origin that has been ready for so long goes first")
    dns_timeout_s: float = 10.0
    dns_ttl_s: float = Field(300.0, description="how long a resolved address is believed")
    dns_nxdomain_ttl_s: float = Field(3600.0, description="how long NXDOMAIN is believed")
    idle_connections: int = Field(1000, ge=0, description="kept-alive connections over all origins")
    idle_s: float = Field(15.0, ge=0, description="how long a connection is kept alive")
    validators_distrust_after: int = Field(
        5, ge=1, description="conditional requests to an origin before a share of lies above one half switches them off"
    )
    commit_bytes: int = Field(
        64 * 1024 * 1024, description="bodies waiting for their commit, in bytes, before fetching pauses"
    )
    commit_batch: int = Field(200, ge=1, description="outcomes committed together")
    commit_interval_s: float = Field(2.0, gt=0, description="and at least this often")
    test_hosts: dict[str, str] = Field(
        default_factory=dict,
        description="DEMO AND TESTS ONLY: name -> '127.x.y.z' or '127.x.y.z:port'. Only these names skip DNS and only "
        "their loopback addresses pass the egress gate (a name may start with '*.').",
    )
    test_ca_file: str | None = Field(None, description="DEMO AND TESTS ONLY: a CA to trust for test_hosts")

    @property
    def user_agent(self) -> str:
        return f"{self.user_agent_product}/1.0 (+{self.contact_url})"
