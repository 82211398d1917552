"""One way to name a database: a path, a URL, a folder, or the object itself."""

from __future__ import annotations

from pathlib import Path

from .base import Database
from .error import DatabaseError, DatabaseFileError, cannot_look
from .json_database import JSONDatabase
from .jsonl import import_records
from .memory import MemoryDatabase


def open_database(
    where: str | Path | Database, *, must_exist: bool = False, module_equality: str = "structural"
) -> Database:
    """Open what a user named.

    Args:
        where: a :class:`Database` (returned as it is), ``":memory:"``, a URL of a scheme in ``Database.schemes``, an SQLAlchemy
            URL (``sqlite:///tuning.db``, ``postgresql+psycopg://...``), a folder that holds a JSON database, or is to hold one, which a
            ``/`` at the end says (``"records/"``), a ``.jsonl`` file of exported records (read into memory), or the path of an SQLite
            file. What is missing is made with the first commit.
        must_exist: refuse what is missing, as commands that only read do.
        module_equality: whose records answer for a program that has none, by a name of
            :class:`database.module_equality.ModuleEquality`; a :class:`Database`, and what a scheme opens, have their own.

    Raises:
        DatabaseFileError: it is missing, unreadable, not a database, or another program's.
        SchemaVersionError: a newer version wrote it.
    """
    if isinstance(where, Database):
        return where
    if not isinstance(where, (str, Path)):
        raise DatabaseError(
            f"a database is named by a path, a URL or a Database, got {type(where).__name__}: {where!r}"
        )
    text = str(where)
    if text == ":memory:":
        return MemoryDatabase(module_equality)
    if "://" not in text:
        path = Path(text)
        try:
            has_json, is_folder, exists = (
                (path / "database_workload.json").exists(),
                path.is_dir(),
                path.exists(),
            )
        except OSError as error:
            raise cannot_look(text, error) from error
        if has_json or (text.endswith("/") and (is_folder or not exists)):
            allow_missing = not (has_json or must_exist)
            return JSONDatabase(work_dir=path, allow_missing=allow_missing, module_equality=module_equality)
        if is_folder:
            raise DatabaseFileError(
                f"{text!r} is a folder without a JSON database; name a file, such as {path / 'tuning.db'}, or {f'{path}/'}, with the"
                " '/', where a JSON database is to be made"
            )
        if path.suffix == ".jsonl":
            if not exists:
                raise DatabaseFileError(f"record file {text!r} does not exist; check the path")
            loaded = MemoryDatabase(module_equality)
            import_records(loaded, path)
            return loaded
    elif (scheme := text.partition("://")[0]) in Database.schemes:
        return Database.schemes[scheme](text, must_exist)
    return Database.create("sql", where, must_exist=must_exist, module_equality=module_equality)


def open_for_writing(where: str | Path | Database) -> Database:
    """Like :func:`open_database`, for whoever commits what must not be lost.

    Raises:
        DatabaseFileError: it is a ``.jsonl`` file, which would be read into memory and never written.
    """
    if isinstance(where, (str, Path)) and "://" not in str(where) and Path(where).suffix == ".jsonl":
        path = Path(where)
        raise DatabaseFileError(
            f"record file {str(path)!r} is only read: name a database such as {str(path.with_suffix('.db'))!r},"
            f" 'loopsmith db import' the file into it, and 'loopsmith db export' it again"
        )
    return open_database(where)
