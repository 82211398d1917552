"""Why no migration goes back: an older version has no room for what a newer one keeps."""

from __future__ import annotations

from typing import NoReturn

from database.error import SchemaVersionError


def refused() -> NoReturn:
    """Stands for the way back of every migration.

    Raises:
        SchemaVersionError: always; nothing was changed.
    """
    raise SchemaVersionError(
        "a tuning database is not taken back to an older schema version: what the newer one keeps would be lost. Write its records to a"
        " file by 'loopsmith db export', and read that with the older loopsmith into a new database. Nothing was changed"
    )
