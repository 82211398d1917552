"""Where the command writes: results to standard output, complaints to standard error, files where that is possible."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ..console import make_console
from ..error import TunerError

out = make_console()


def complain(message: str) -> None:
    """One paragraph on standard error; a terminal gets it in lines of its width, anything else in one."""
    text = " ".join(message.split()) if len(message) < 2000 else message
    make_console(stderr=True).print(f"loopsmith: error: {text}")


@contextmanager
def working(text: str) -> Iterator[None]:
    """Say what the block does, which takes a while: on a terminal as long as it lasts, elsewhere in a line."""
    if not out.is_terminal:
        out.print(text)
    with out.status(text):
        yield


def check_writable(path: Path) -> None:
    """Refuse a path that cannot be written, before anything is computed.

    Raises:
        TunerError: the folder is missing or not writable, or the path is a folder.
    """
    folder = path.parent
    if path.is_dir():
        raise TunerError(f"cannot write {path}: it is a folder; name a file in it")
    if not folder.is_dir():
        raise TunerError(f"cannot write {path}: there is no folder {folder}; make it first")
    if not os.access(folder, os.W_OK) or (path.exists() and not os.access(path, os.W_OK)):
        raise TunerError(f"cannot write {path}: permission denied; choose another place")


def size_text(size: int) -> str:
    """Bytes for people: ``812 bytes``, ``43.1 kB``, ``2.5 MB``."""
    if size < 1000:
        return f"{size} bytes"
    return f"{size / 1e3:.1f} kB" if size < 1_000_000 else f"{size / 1e6:.1f} MB"
