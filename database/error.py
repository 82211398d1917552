"""The errors of tuning databases; each names the database and what to do."""

from __future__ import annotations

import errno

from ir.error import IRError


class DatabaseError(IRError):
    """A tuning database cannot do what was asked."""


class DatabaseFileError(DatabaseError, OSError):
    """A database or record file is missing, unreadable, not writable, or not what it should be."""


class SchemaVersionError(DatabaseError):
    """A database or record file was written by a newer loopsmith than this one."""


def cannot_write(path: object, error: OSError) -> DatabaseFileError:
    """What the system's refusal to write a file means to its user."""
    if error.errno in (errno.ENOSPC, errno.EFBIG, errno.EDQUOT):
        fix = "free some space, or raise the limit on the size of files; everything committed is kept"
    elif error.errno in (errno.ENOENT, errno.ENOTDIR):
        fix = "it or its folder was removed; put it back, or open the database again"
    else:
        fix = "check that the file and its folder can be written"
    return DatabaseFileError(f"tuning database file {str(path)!r} cannot be written: {error.strerror}; {fix}")


def cannot_look(path: object, error: OSError) -> DatabaseFileError:
    """What the system's refusal to say anything of a path means to its user."""
    return DatabaseFileError(
        f"tuning database {str(path)!r} cannot be looked at: {error.strerror}; check the path, and that its folders can be entered"
    )
