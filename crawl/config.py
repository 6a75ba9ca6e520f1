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
    max_in_flight: int = Field(100, ge=1, description="exchanges under way at once, over all origins")
    origin_gap_s: float = Field(1.0, ge=0, description="least time between two request starts at one origin")
    origin_max_in_flight: int = Field(1, ge=1, description="requests at one origin at once")
    max_crawl_delay_s: float = Field(30.0, description="a longer Crawl-delay is capped here")
    connect_timeout_s: float = 10.0
    first_byte_timeout_s: float = 20.0
    total_timeout_s: float = 60.0
    max_redirects: int = 5
    max_header_bytes: int = 64 * 1024
    max_body_bytes: int = Field(10 * 1024 * 1024, description="decoded; beyond it the body is kept and marked truncated")
    max_expansion_ratio: float = Field(200.0, description="decoded over wire bytes, looked at above 1 MiB decoded")
    allowed_ports: tuple[int, ...] = (80, 443, 8080, 8443)
    robots_ttl_s: int = 24 * 3600
    robots_error_ttl_s: int = Field(600, description="how long an unreachable robots.txt is believed before it is asked again")
    window_budget_s: float | None = Field(None, description="after this many seconds the rest of a batch is coverage debt")
    max_attempts: int = Field(3, ge=1, description="attempts within one window for failures that a retry may help")
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
