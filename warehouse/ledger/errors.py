"""What can go wrong with the ledger, in one sentence for a person. Here: error types and the translation of MySQL's
error numbers. Not here: retries (`warehouse.ledger.engine`)."""

from __future__ import annotations

import mysql.connector
from mysql.connector import errorcode

from transforms.errors import BacklinksError, PermanentError, TransientError
from warehouse.ledger.config import LedgerSettings


class LedgerUnavailable(TransientError):
    """The server is down, starting, failing over, or has no connection left."""


class LedgerBusy(TransientError):
    """A deadlock or a lock that did not come in time: the same transaction may work when it is run again."""


class LedgerRefused(PermanentError):
    """Wrong password, unknown database, missing rights, full disk, schema that is not there."""


class LedgerConstraint(PermanentError):
    """A row that the ledger's own rules refuse: a duplicate, a reference to nothing, a broken promise."""


class StaleFence(PermanentError):
    """Somebody else owns the shard now. Nothing was changed; whoever gets this must stop."""


class LeaseHeld(TransientError):
    """The shard is owned by somebody else for now."""


BUSY = frozenset({errorcode.ER_LOCK_DEADLOCK, errorcode.ER_LOCK_WAIT_TIMEOUT, 3572})
"""Deadlock, lock wait timeout, NOWAIT: the whole transaction may be run again."""

_DOWN = frozenset(
    {2000, 2002, 2003, 2005, 2006, 2012, 2013, 2014, 2055, 1053, 1077, 1079, 1080, 1152, 1159, 1160, 1161, 1317, 1927}
)
_READ_ONLY = frozenset({1290, 1792, 1836, 3989})
_DISK = frozenset({3, 1021, 1026, 1114, 3019, 3675, 12916})
_CONSTRAINT = frozenset({1048, 1062, 1169, 1216, 1217, 1264, 1265, 1366, 1406, 1451, 1452, 1557, 1586, 3819, 3105})


def translate(error: mysql.connector.Error, settings: LedgerSettings) -> BacklinksError:
    """The error of ours that says what is wrong and what to do. Never holds a password or a row's content beyond the
    key that MySQL names."""
    at = f"{settings.host}:{settings.port}"
    number = error.errno
    text = (error.msg or str(error)).strip().rstrip(".")
    if number in BUSY:
        return LedgerBusy(f"MySQL at {at} gave up waiting for a lock ({text}); running it again may help")
    if number == errorcode.ER_ACCESS_DENIED_ERROR:
        return LedgerRefused(
            f"MySQL at {at} refused user {settings.user!r}: the password is wrong; set BACKLINKS_LEDGER__USER and "
            "BACKLINKS_LEDGER__PASSWORD"
        )
    if number == errorcode.ER_BAD_DB_ERROR:
        return LedgerRefused(
            f"MySQL at {at} has no database {settings.database!r}: migrate the ledger first, or set "
            "BACKLINKS_LEDGER__DATABASE"
        )
    if number in (errorcode.ER_DBACCESS_DENIED_ERROR, errorcode.ER_TABLEACCESS_DENIED_ERROR, 1227):
        return LedgerRefused(
            f"MySQL at {at} lets user {settings.user!r} in, but not do this ({text}); grant it the rights on "
            f"{settings.database!r} and {settings.identity_database!r}"
        )
    if number == errorcode.ER_NO_SUCH_TABLE or number == 1054:
        return LedgerRefused(
            f"the ledger {settings.database!r} at {at} is not migrated to this version ({text}): migrate it first"
        )
    if number in _DISK:
        return LedgerRefused(
            f"MySQL at {at} has no room left on its disk ({text}): free some, then run again; nothing was half-written"
        )
    if number in (1040, 1203, 1226):
        return LedgerUnavailable(f"MySQL at {at} has no connection left ({text}); running it again later may help")
    if number in _READ_ONLY:
        return LedgerUnavailable(
            f"MySQL at {at} is read-only now ({text}): it is failing over, or the wrong server is set"
        )
    if number in _CONSTRAINT:
        return LedgerConstraint(f"the ledger refused a row: {text}")
    if number in _DOWN or isinstance(error, (mysql.connector.InterfaceError, mysql.connector.OperationalError)):
        return LedgerUnavailable(
            f"MySQL at {at} does not answer ({text}): start it (`make up`) or set BACKLINKS_LEDGER__HOST and "
            "BACKLINKS_LEDGER__PORT"
        )
    return LedgerRefused(f"MySQL at {at} refused a statement: {text} (error {number})")
