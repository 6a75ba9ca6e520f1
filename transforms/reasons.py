"""Reason codes: why a check ended as it did, and what that means as evidence. One enum, used from the first gate of the
crawler to the dashboards. Here: the codes. Not here: how they are found (`crawl`, `transforms.html`) or folded (dbt).

Evidence is `found`, `missing` or `none`; only a *complete* page without the link, or a source that is gone (404, 410),
may ever become `missing`. Everything else is `none` and never touches a miss counter.
"""

from __future__ import annotations

from enum import StrEnum


class Evidence(StrEnum):
    NONE = "none"
    MISSING = "missing"
    FOUND = "found"


class Health(StrEnum):
    """Fetch health of a source or target, as the ledger's ENUM spells it."""

    UNKNOWN = "unknown"
    OK = "ok"
    BLOCKED = "blocked"
    ERROR = "error"


class Outcome(StrEnum):
    """The class of a fetch outcome: what the scheduler does next."""

    FETCHED = "fetched"            # a final response with a body that may be parsed
    NOT_MODIFIED = "not_modified"  # 304, and the earlier snapshot is really there
    GONE = "gone"                  # 404 or 410 of the source
    BLOCKED = "blocked"            # somebody said no: robots, 401, 403, challenge, suppression, egress gate
    FAILED = "failed"              # something broke: DNS, TCP, TLS, timeouts, 5xx, limits
    DEFERRED = "deferred"          # not asked now: 429/503 back-off, window budget, stop signal; coverage debt


class Reason(StrEnum):
    """Why. The comment says what it means for evidence."""

    # -- a final response ------------------------------------------------------------------------------------------
    OK = "ok"                                    # decides by the manifest: found or missing
    NOT_MODIFIED = "not_modified"                # as OK, from the earlier snapshot
    HTTP_404 = "http_404"                        # missing (complete)
    HTTP_410 = "http_410"                        # missing (complete)
    # -- gates, before any byte is sent: none ------------------------------------------------------------------------
    BAD_URL = "bad_url"
    BAD_SCHEME = "bad_scheme"
    URL_CREDENTIALS = "url_credentials"
    BAD_PORT = "bad_port"
    BLOCKED_NETWORK = "blocked_network"
    SUPPRESSED = "suppressed"
    ROBOTS_DENIED = "robots_denied"
    ROBOTS_UNREACHABLE = "robots_unreachable"
    # -- network: none -------------------------------------------------------------------------------------------------
    DNS_NXDOMAIN = "dns_nxdomain"
    DNS_FAILED = "dns_failed"
    CONNECT_FAILED = "connect_failed"
    CONNECT_TIMEOUT = "connect_timeout"
    TLS_FAILED = "tls_failed"
    FIRST_BYTE_TIMEOUT = "first_byte_timeout"
    TOTAL_TIMEOUT = "total_timeout"
    CONNECTION_RESET = "connection_reset"
    PROTOCOL_ERROR = "protocol_error"
    INCOMPLETE_BODY = "incomplete_body"
    # -- limits: none -----------------------------------------------------------------------------------------------------
    HEADERS_TOO_LARGE = "headers_too_large"
    BODY_TRUNCATED = "body_truncated"            # kept up to the cap: may still be found, never missing
    EXPANSION_RATIO = "expansion_ratio"
    BAD_ENCODING = "bad_encoding"
    UNSUPPORTED_TYPE = "unsupported_type"
    EMPTY_BODY = "empty_body"
    # -- status and redirects: none -------------------------------------------------------------------------------------------
    HTTP_401 = "http_401"
    HTTP_403 = "http_403"
    HTTP_429 = "http_429"
    HTTP_4XX = "http_4xx"
    HTTP_5XX = "http_5xx"
    HTTP_503 = "http_503"
    HTTP_UNEXPECTED = "http_unexpected"          # 1xx, 204, 206, 304 unasked, odd codes
    REDIRECT_LOOP = "redirect_loop"
    TOO_MANY_REDIRECTS = "too_many_redirects"
    BAD_REDIRECT = "bad_redirect"
    # -- blocks and lies: none -------------------------------------------------------------------------------------------------
    CHALLENGE = "challenge"
    CONSENT_WALL = "consent_wall"
    LOGIN_REDIRECT = "login_redirect"
    MAINTENANCE = "maintenance"                  # "back soon" with status 200, or a 200 with Retry-After
    PLACEHOLDER = "placeholder"                  # a server's default page, a parked domain, a shop that is not open yet
    # -- the artifact or the parse: none -----------------------------------------------------------------------------------------
    ARTIFACT_UNAVAILABLE = "artifact_unavailable"
    PARSE_TIMEOUT = "parse_timeout"
    PARSE_FAILED = "parse_failed"
    PARSE_TRUNCATED = "parse_truncated"          # may still be found, never missing
    SCRIPT_SHELL = "script_shell"
    LINK_COLLAPSE = "link_collapse"
    # -- not asked now: none ------------------------------------------------------------------------------------------------------
    ORIGIN_BACKOFF = "origin_backoff"
    WINDOW_BUDGET = "window_budget"
    STOPPED = "stopped"
    NOT_FETCHED = "not_fetched"
    # -- a decided edge -------------------------------------------------------------------------------------------------------------
    LINK_FOUND = "link_found"                    # found
    LINK_FOUND_VIA_REDIRECT = "link_found_via_redirect"  # found, through a checked redirect of the source's own
    LINK_ABSENT = "link_absent"                  # missing (complete)
    REDIRECT_UNCHECKED = "redirect_unchecked"    # none: a redirector that may lead to the target could not be checked


SOURCE_GONE: frozenset[Reason] = frozenset({Reason.HTTP_404, Reason.HTTP_410})
"""Reasons that are complete evidence of absence without a manifest."""

FOUND_ONLY: frozenset[Reason] = frozenset({Reason.BODY_TRUNCATED, Reason.PARSE_TRUNCATED})
"""A body is there and may prove a link, but never its absence."""

READABLE: frozenset[Reason] = frozenset({Reason.OK, Reason.NOT_MODIFIED}) | FOUND_ONLY
"""Fetch reasons that leave a body to parse."""
