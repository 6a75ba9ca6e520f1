"""Identifiers that are worked out, not handed out: the same input always gives the same key, so a retry finds its own
row.

Here: keys of runs, jobs, rows. Not here: URL hashes (`transforms.urls`), observation keys (`transforms.evidence`).
"""

from __future__ import annotations

import hashlib
import secrets
from datetime import datetime

from transforms.windows import Window

FETCH_PROFILE = hashlib.sha256(b"http:v1").digest()
"""The one fetch profile there is: plain HTTP, no cookies, no scripts (blueprint: `fetch_profile_hash`)."""


def run_key(project_id: bytes, window: Window) -> bytes:
    """`crawl_runs.idempotency_key`; its first 16 bytes are `crawl_runs.id`."""
    return hashlib.sha256(f"{project_id.hex()}:verification:{window.key}".encode()).digest()


def tenant_id(name: str) -> bytes:
    """16 bytes for a tenant that is known by a name (the `backlinks` command)."""
    return hashlib.sha256(f"tenant:{name}".encode()).digest()[:16]


def target_key(scope: str, names: str, include_subdomains: bool) -> bytes:
    """`project_targets.target_key`: `names` is the registrable domain, the host, or the URL, as the scope wants it."""
    return hashlib.sha256(f"{scope}:{names}:{int(include_subdomains)}".encode()).digest()


def uuid7(at: datetime) -> bytes:
    """RFC 9562 version 7: sorts by time, so new rows go to the end of the primary key. 16 bytes."""
    return _v7(at, secrets.token_bytes(10))


def uuid7_of(at: datetime, key: bytes) -> bytes:
    """As `uuid7`, but the same for the same time and key (at least 10 bytes of a hash)."""
    return _v7(at, key[:10])


def _v7(at: datetime, tail: bytes) -> bytes:
    milliseconds = int(at.timestamp() * 1000).to_bytes(6, "big")
    return milliseconds + bytes([0x70 | tail[0] & 0x0F, tail[1], 0x80 | tail[2] & 0x3F]) + tail[3:10]
