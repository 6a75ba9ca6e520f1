"""What a person writes after `--alert`: where alerts of a project go. Here: parsing. Not here: delivering.

Written `email:ADDRESS`, `webhook:URL`, `slack:env:NAME`. A Slack hook's address is itself a secret, and so may a
webhook's be: those are named by the environment variable that holds them (`env:NAME`), never stored.
"""

from __future__ import annotations

import re

from transforms.errors import PermanentError
from transforms.urls import identify

_EMAIL = re.compile(r"[^\s@,;<>]+@[^\s@,;<>]+\.[^\s@,;<>]+")
_ENV = re.compile(r"env:[A-Za-z_][A-Za-z0-9_]*")


class BadChannel(PermanentError):
    """An alert channel that cannot be understood."""


def parse_channel(written: str) -> dict[str, str]:
    """`{"channel": email|webhook|slack, "destination": ...}`. Raises `BadChannel`."""
    channel, _, destination = written.strip().partition(":")
    destination = destination.strip()
    if channel == "email" and _EMAIL.fullmatch(destination):
        return {"channel": channel, "destination": destination}
    if channel in ("webhook", "slack") and _ENV.fullmatch(destination):
        return {"channel": channel, "destination": destination}
    if channel == "slack":
        raise BadChannel(
            "A Slack hook's address is a secret: put it into an environment variable and write --alert slack:env:NAME."
        )
    if channel == "webhook":
        found = identify(destination)
        if found.identity is not None and "credentials" not in found.flags:
            return {"channel": channel, "destination": found.identity}
        raise BadChannel(
            "--alert webhook: needs an http(s) URL without a password, or env:NAME of the variable that holds it."
        )
    raise BadChannel("--alert is written email:ADDRESS, webhook:URL or slack:env:NAME.")
