"""Folders for temporary files of one process, which nobody has to remove who was killed: the next one does."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path


def own_folder(what: str, parent: Path | None = None) -> Path:
    """A new folder that is named after this process; those of processes that have ended are removed.

    Args:
        what: it is for, as part of its name.
        parent: where it is made; in the folder for temporary files by default.
    """
    where, prefix = parent or Path(tempfile.gettempdir()), f"loopsmith-{what}-{os.getuid()}-"
    for left in where.glob(f"{prefix}*"):
        pid = left.name.removeprefix(prefix).split("-")[0]
        if not Path("/proc", pid).exists():
            shutil.rmtree(left, ignore_errors=True)
    return Path(tempfile.mkdtemp(prefix=f"{prefix}{os.getpid()}-", dir=where))
