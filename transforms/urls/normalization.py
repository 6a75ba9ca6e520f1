"""The rules of URL identity as a value: a version and the function that applies it. Here: `Normalization`, `CURRENT`.
Not here: the rules (`identity`), the migration from one version to the next (`warehouse.ledger.identity_migration`).

Whoever registers or looks up URLs takes one of these, so that a ledger can be driven with the rules of another version
(the migration's tests do) without anything global being replaced.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pyarrow as pa

from transforms.urls.batch import identify_many
from transforms.urls.identity import NORMALIZATION_VERSION


@dataclass(frozen=True)
class Normalization:
    """One version of the rules."""

    version: int
    """`urls.normalization_version`; it is part of every hash (`url_hash(identity, version)`)."""
    identify: Callable[[Sequence[str | None]], pa.Table]
    """Spellings to `IDENTITY_COLUMNS`, a row each in order, with hashes of this version. Idempotent: the identity of an
    identity is itself."""


CURRENT = Normalization(NORMALIZATION_VERSION, identify_many)
"""The rules of this code."""
