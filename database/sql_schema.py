"""Whose tables an SQL database holds, which version of ours they are, and how they are brought up to date."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

from sqlalchemy import inspect
from sqlalchemy.engine import Connection

from .error import DatabaseFileError, SchemaVersionError
from .schema import HEAD_REVISION

_FIRST_TABLES = {"alembic_version", "workloads", "targets", "sessions", "records"}
"""What the first version made; every tuning database has these."""
_APPLICATION_ID = 0x4C4F4F50
"""Tells an SQLite file of ours from others (``file`` and SQLite's own tools show it); older versions did not write it."""
_MIGRATION_LOCK = 0x6C6F6F70
"""Number of PostgreSQL's advisory lock under which one process at a time changes the schema."""
_ALEMBIC = threading.Lock()
"""alembic keeps what it works on in one place of the process."""
_SHOWN_TABLES = 3


def schema_version(connection: Connection, name: str) -> str | None:
    """The revision that a database has; None for one in which nothing is.

    Args:
        connection: to the database, of which nothing is changed.
        name: what errors call it.

    Raises:
        DatabaseFileError: another program's tables are in it.
        SchemaVersionError: the revision is none that this version knows.
    """
    inspector = inspect(connection)
    tables = {*inspector.get_table_names(), *inspector.get_view_names()}
    is_sqlite = connection.dialect.name == "sqlite"
    application = connection.exec_driver_sql("PRAGMA application_id").scalar_one() if is_sqlite else 0
    if not tables and not application:
        return None
    if application != _APPLICATION_ID and not tables >= _FIRST_TABLES:
        shown = ", ".join(sorted(tables)[:_SHOWN_TABLES]) + (", ..." if len(tables) > _SHOWN_TABLES else "")
        fix = "name another file" if is_sqlite else "make a database for tuning records, and name that"
        raise DatabaseFileError(
            f"{name} belongs to another program, whose tables are in it ({shown or 'none yet'}), and is no tuning database; {fix}."
            " Nothing was changed"
        )
    found = connection.exec_driver_sql("SELECT version_num FROM alembic_version").scalars().first()
    if found is not None and found not in known_revisions():
        raise SchemaVersionError(
            f"{name} has schema version {found!r}, which is newer than this loopsmith knows (up to {HEAD_REVISION!r}); update loopsmith"
            " or use another database. Nothing was changed"
        )
    return found


def upgrade(connection: Connection, name: str) -> None:
    """Bring the tables up to date, within the transaction of a connection; of several processes one does so.

    Raises:
        DatabaseFileError: another program's tables are in it.
        SchemaVersionError: a newer version made them.
    """
    if connection.dialect.name == "postgresql":
        connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({_MIGRATION_LOCK})")
    if schema_version(connection, name) == HEAD_REVISION:  # another process was first
        return
    from alembic import command

    if connection.dialect.name == "sqlite":
        connection.exec_driver_sql(f"PRAGMA application_id = {_APPLICATION_ID}")
    with _ALEMBIC:
        command.upgrade(alembic_config(connection), "head")


def known_revisions() -> list[str]:
    """The schema versions that this loopsmith can open, oldest first."""
    folder = Path(__file__).parent / "migrations" / "versions"
    return sorted(path.name.split("_")[0] for path in folder.glob("[0-9]*.py"))


def alembic_config(connection: Connection | None = None) -> Any:
    """alembic's configuration for our migrations, with the connection that they shall use."""
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations").replace("%", "%%"))
    config.attributes["connection"] = connection
    return config
