"""Which version of the rules of URL identity the ledger is at. Here: the guard that every writer of URLs and edges passes,
and what a half-done migration means for a look-up. Not here: the migration (`identity_migration`), the rules
(`transforms.urls`).

A ledger is at one version, held in one row. Code of another version is refused: older code would spell new rows the old
way, newer code would not find what is there. A migration first plans (nothing changes for anybody), then switches the
version in one transaction, then rewrites. From the switch on, look-ups read both: a URL is known by its hash of this
version, by its hash of the version before when its spelling is unchanged, or by its planned new hash.
"""

from __future__ import annotations

from dataclasses import dataclass

from transforms.errors import PermanentError
from transforms.urls import Normalization, url_hash
from warehouse.ledger.engine import Transaction


class IdentityVersionMismatch(PermanentError):
    """This code's rules of URL identity are not those of the ledger."""


@dataclass(frozen=True)
class Standing:
    """What the ledger says of its identities."""

    version: int
    from_version: int | None = None
    """The version before, while rows of it may be left: look-ups read both. None: all rows are of `version`."""


def guard(tx: Transaction, rules: Normalization, *, writing: bool = False) -> Standing:
    """The ledger's standing, for code that works under `rules`. Raises `IdentityVersionMismatch` when they do not fit.

    With `writing` the transaction holds the row in share mode: the version cannot be switched, and no step of a
    migration runs, before it ends.
    """
    row = tx.row(_READ + (" FOR SHARE" if writing else ""))
    if row is None:
        if not writing:
            return Standing(rules.version)  # no URL was ever registered
        tx.execute(
            "INSERT INTO url_identity_state (id, version) VALUES (1, %(version)s) ON DUPLICATE KEY UPDATE id = 1",
            {"version": rules.version},
        )
        row = tx.row(_READ + " FOR SHARE")
        assert row is not None
    standing = Standing(int(row[0]), None if row[1] is None else int(row[1]))
    if standing.version < rules.version:
        raise IdentityVersionMismatch(
            f"the ledger's URLs have identities of version {standing.version}, this code's rules are version "
            f"{rules.version}: run `backlinks identities migrate` (and before it with --dry-run)"
        )
    if standing.version > rules.version:
        raise IdentityVersionMismatch(
            f"the ledger's URLs have identities of version {standing.version}, this code knows version {rules.version}: "
            "update the code"
        )
    return standing


def find_url(tx: Transaction, rules: Normalization, identity: str) -> int | None:
    """`urls.id` of an identity, whichever version its row is at; None when it is not known."""
    standing = guard(tx, rules)
    versions = [standing.version, *([] if standing.from_version is None else [standing.from_version])]
    for version in versions:
        row = tx.row("SELECT id FROM urls WHERE url_hash = %(hash)s", {"hash": url_hash(identity, version)})
        if row is not None:
            return int(row[0])
    planned = tx.row(
        "SELECT MIN(url_id) FROM url_identity_changes WHERE to_version = %(version)s AND new_hash = %(hash)s "
        "AND verdict = 'planned'",
        {"version": standing.version, "hash": url_hash(identity, standing.version)},
    )
    return None if planned is None or planned[0] is None else int(planned[0])


_READ = "SELECT version, from_version FROM url_identity_state WHERE id = 1"
