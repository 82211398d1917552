"""What tells one file from another that has, or had, its name."""

from __future__ import annotations

import os
from pathlib import Path

FileId = tuple[int, int]
"""Device and inode."""


def file_id(path: str | Path | int) -> FileId | None:
    """Of the file that has a name now, or of an open one; None where none can be seen."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino
