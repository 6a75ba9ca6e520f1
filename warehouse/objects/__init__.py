"""Where bytes are kept: a directory or an S3 bucket behind one interface.

Here: opening the store that the settings name. Not here: what is kept in it (`warehouse.datasets`,
`warehouse.snapshots`).
"""

from __future__ import annotations

from pathlib import Path

from transforms.errors import PermanentError
from warehouse.objects.config import ObjectStoreSettings
from warehouse.objects.directory import DirectoryStore
from warehouse.objects.s3 import S3Store
from warehouse.objects.store import (
    BadKey,
    ObjectInfo,
    ObjectMissing,
    ObjectStore,
    StoreDenied,
    StoreFull,
    StoreUnavailable,
    check_key,
)

__all__ = [
    "BadKey",
    "DirectoryStore",
    "ObjectInfo",
    "ObjectMissing",
    "ObjectStore",
    "S3Store",
    "StoreDenied",
    "StoreFull",
    "StoreUnavailable",
    "check_key",
    "open_store",
]


def open_store(settings: ObjectStoreSettings, root: Path) -> ObjectStore:
    """The store at `settings.url`: `s3://bucket/prefix`, or a directory (a relative one is below `root`).

    Opening an S3 store sends nothing yet; a directory is made. Raises `PermanentError` for any other scheme.
    """
    if settings.url.startswith("s3://"):
        return S3Store(settings)
    scheme, separator, _ = settings.url.partition("://")
    if separator:
        raise PermanentError(f"object store {scheme}:// is not known: use a directory or s3://bucket/prefix")
    return DirectoryStore(root / settings.url)
