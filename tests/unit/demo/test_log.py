"""What the request log proves: gaps between requests to a host, and that nothing was asked twice."""

from __future__ import annotations

from typing import Any

import pytest

from orchestration.demo.web import asked_again, least_gaps


def request(at: float, host: str, path: str = "/", window: int = 0, status: int = 200) -> dict[str, Any]:
    return {"at": at, "host": host, "path": path, "window": window, "status": status}


def test_least_gaps() -> None:
    log = [request(1.0, "a"), request(1.1, "b"), request(3.0, "a"), request(3.5, "a"), request(9.0, "c")]
    assert least_gaps(log) == pytest.approx({"a": 0.5})


def test_asked_again() -> None:
    log = [
        request(1, "a", "/x"),
        request(2, "a", "/x", window=1, status=304),
        request(3, "a", "/y", status=503),
        request(4, "a", "/y"),
        request(5, "a", "/x", window=1),
    ]
    assert [entry["at"] for entry in asked_again(log)] == [5]
