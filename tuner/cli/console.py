"""Where the command writes: results and notes to standard output, complaints to standard error, files where that is possible."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import Any

from database.secrets import masked

from ..console import make_console
from ..error import TunerError

out = make_console()
"""Results go here; what is only said of the way to them is a :func:`note`."""


class Loudness(IntEnum):
    """How much a command says."""

    QUIET = 0
    """Results and errors."""
    USUAL = 1
    """Progress and notes, too."""
    VERBOSE = 2
    """What the log calls information, too."""
    DEBUG = 3
    """All of the log."""


@dataclass
class _Manner:
    """How this process speaks."""

    loudness: Loudness = Loudness.USUAL
    is_json: bool = False


_MANNER = _Manner()


def set_loudness(loudness: Loudness) -> None:
    """How much is said from now on."""
    _MANNER.loudness = loudness


def loudness() -> Loudness:
    """How much is said."""
    return _MANNER.loudness


def speak_json(wanted: bool) -> None:
    """Whether standard output is for a JSON object alone, so that notes must not go there."""
    _MANNER.is_json = wanted


def note(text: str) -> None:
    """Say what was done, or what to do next, unless only the result is wanted."""
    if _MANNER.loudness > Loudness.QUIET and not _MANNER.is_json:
        out.print(text)


def tell(text: str) -> None:
    """Say what is of no use unsaid, such as an address: also to who wants results only, and beside JSON on standard error."""
    (make_console(stderr=True) if _MANNER.is_json else out).print(text)


def print_json(value: Any) -> None:
    """A result for programs, as JSON; numbers that JSON does not have, such as infinity, are null."""
    json.dump(_plain(value), sys.stdout, indent=1, allow_nan=False)
    print()


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not (float("-inf") < value < float("inf")):
        return None
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)


def complain(message: str) -> None:
    """One paragraph on standard error, without passwords of URLs; a terminal gets it in lines of its width, anything else in one."""
    text = masked(" ".join(message.split()) if len(message) < 2000 else message)
    make_console(stderr=True).print(f"loopsmith: error: {text}")


@contextmanager
def working(text: str) -> Iterator[None]:
    """Say what the block does, which takes a while: on a terminal as long as it lasts, elsewhere in a line."""
    if not out.is_terminal:
        note(text)
    is_wanted = _MANNER.loudness > Loudness.QUIET and not _MANNER.is_json
    with out.status(text) if is_wanted else nullcontext():
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


def renamed(path: Path, suffix: str, otherwise: str = "model") -> Path:
    """The path with another ending, for an advice; of a folder without a name of its own, the file ``otherwise`` in it.

    >>> print(renamed(Path("net.txt"), ".so"), renamed(Path(".."), ".so"))
    net.so ../model.so
    """
    return path.with_suffix(suffix) if path.name not in ("", "..") else path / f"{otherwise}{suffix}"


def size_text(size: int) -> str:
    """Bytes for people: ``812 bytes``, ``43.1 kB``, ``2.5 MB``."""
    if size < 1000:
        return f"{size} bytes"
    return f"{size / 1e3:.1f} kB" if size < 1_000_000 else f"{size / 1e6:.1f} MB"
