"""Fixtures for every test live in `tests/fixtures/`, one module per kind of server."""

pytest_plugins = [
    "tests.fixtures.stack",
    "tests.fixtures.ledger",
    "tests.fixtures.clickhouse",
    "tests.fixtures.objects",
    "tests.fixtures.web",
    "tests.fixtures.hostile",
    "tests.fixtures.chromium",
    "tests.fixtures.flow",
    "tests.fixtures.scene",
]
