"""The errors of tuning databases; each names the database and what to do."""

from __future__ import annotations

from ir.error import IRError


class DatabaseError(IRError):
    """A tuning database cannot do what was asked."""


class DatabaseFileError(DatabaseError, OSError):
    """A database or record file is missing, unreadable, not writable, or not what it should be."""


class SchemaVersionError(DatabaseError):
    """A database or record file was written by a newer loopsmith than this one."""
