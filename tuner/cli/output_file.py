"""Files that commands write: what was there before is overwritten where a command of ours has written it, and never anything else."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ..error import TunerError
from .console import check_writable

_LOOKED_AT = 4096
"""Bytes at the beginning and at the end of a file."""


@dataclass(frozen=True, slots=True)
class FileKind:
    """A kind of file that commands write.

    Attributes:
        name: with its article, as a message has it.
        mark: what every such file holds near its beginning or its end.
    """

    name: str
    mark: bytes


LIBRARY = FileKind("a library of loopsmith", b"loopsmL")
HEADER = FileKind("a header of loopsmith", b"loopsmith")
ONNX_MODEL = FileKind("an ONNX model that loopsmith has written", b"loopsmith")
ARRAYS = FileKind("an .npz file", b".npy")
REPORT = FileKind("a report of loopsmith", b'content="loopsmith"')
RECORDS = FileKind("a file of records", b'{"v":')
TRACE = FileKind("a trace of loopsmith", b'"traceEvents"')


def check_output(path: Path, kind: FileKind) -> None:
    """Refuse a path that cannot be written, or where another kind of file is, before anything is computed.

    Raises:
        TunerError: the folder is missing or not writable, the path is a folder, or a file of another kind.
    """
    check_writable(path)
    if path.exists() and path.stat().st_size and not _holds(path, kind.mark):
        raise TunerError(
            f"{path} is there and is not {kind.name}, so it is not overwritten; name another file, or remove it first"
        )


def _holds(path: Path, mark: bytes) -> bool:
    size = path.stat().st_size
    with path.open("rb") as file:
        begin = file.read(_LOOKED_AT)
        file.seek(max(0, size - _LOOKED_AT))
        return mark in begin or mark in file.read(_LOOKED_AT)
