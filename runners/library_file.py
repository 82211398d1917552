"""What stands behind the code in the file of a model's library: where its description is, and a checksum of all of it.

Linkers and the system's loader read the front of a library and leave alone what stands behind it. So a model is described, and damage
is found, without loading anything: the file is read as bytes, and its code is mapped after its checksum was found right. The end::

    offset of the description (int64), its size (int64), 8 bytes of magic, SHA-256 of all before it (32 bytes)
"""

from __future__ import annotations

import hashlib
import json
import os
import struct
from pathlib import Path
from typing import Any, BinaryIO

from .ndarray import numpy_dtype
from .program import ExecutableError

MAGIC = b"loopsmL1"
"""The last byte counts formats."""
_END = struct.Struct("<qq8s32s")
_DIGEST_BYTES = hashlib.sha256().digest_size
_CHUNK = 1 << 20
_ELF = b"\x7fELF"
_KERNELS = (
    "one of kernels, which build(...).export_library writes, is for C, as its header says (a session with a device elsewhere takes the"
    " module itself: upload(module, name))"
)


def seal(path: Path, description: bytes) -> None:
    """Write the end of a library that was just linked.

    Args:
        path: the library.
        description: the text of the description as the linked library holds it.

    Raises:
        ExecutableError: the library does not hold that text.
    """
    offset = path.read_bytes().find(description)
    if offset < 0:
        raise ExecutableError(f"{path} does not hold its description; was it changed by the linker?")
    with path.open("r+b") as file:
        file.seek(0, os.SEEK_END)
        file.write(_END.pack(offset, len(description), MAGIC, b"")[:-_DIGEST_BYTES])
        digest = _digest(file, file.tell())
        file.seek(0, os.SEEK_END)
        file.write(digest)


def read_description(path: Path) -> dict[str, Any]:
    """The description of a model in a library's file, which is neither loaded nor run.

    Raises:
        ExecutableError: the file is missing or unreadable, no model's library, cut short, or changed.
    """
    _require_file(path)
    try:
        with path.open("rb") as file:
            text, size = _sealed_text(path, file)
    except OSError as error:
        raise ExecutableError(f"{path} cannot be read: {error.strerror or error}") from error
    try:
        description = json.loads(text)
        _require_form(description, size)
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        raise ExecutableError(
            f"the description in {path} cannot be read ({error!r:.200}); build the model again"
        ) from error
    return dict(description)


def _require_file(path: Path) -> None:
    if path.is_dir():
        raise ExecutableError(f"{path} is a folder; name a model's shared library in it, such as model.so")
    if not path.is_file():
        raise ExecutableError(
            f"there is no file {path}; check the path, or make the file: `loopsmith build MODEL.onnx -o {path}`, or"
            f" export_library({str(path)!r}) of an executable"
        )


def _sealed_text(path: Path, file: BinaryIO) -> tuple[bytes, int]:
    """The text of the description, and the bytes of the file, whose checksum is right."""
    size = file.seek(0, os.SEEK_END)
    file.seek(0)
    head = file.read(64)
    if not head.startswith(_ELF) or len(head) < 64:
        raise ExecutableError(
            f"{path} is no model library of loopsmith: `loopsmith build` makes one of a model"
        )
    behind = size - _linked_bytes(head)
    file.seek(max(size - _END.size, 0))
    end = file.read(_END.size)
    magic = end[-_DIGEST_BYTES - len(MAGIC) : -_DIGEST_BYTES]
    if behind < 0 or (behind and magic[:-1] != MAGIC[:-1]):
        raise ExecutableError(f"{path} was cut short; copy it again or build the model again")
    if magic[:-1] != MAGIC[:-1]:
        raise ExecutableError(
            f"{path} is no model library of loopsmith, or its end was cut short, as `strip` does: it describes no model; {_KERNELS}"
        )
    if magic != MAGIC:
        raise ExecutableError(
            f"the library {path} has the form {magic!r}, this version of loopsmith reads {MAGIC!r}; build the model again"
        )
    if len(end) < _END.size:
        raise ExecutableError(f"{path} was cut short; copy it again or build the model again")
    offset, length, _, digest = _END.unpack(end)
    if _digest(file, size - _DIGEST_BYTES) != digest:
        raise ExecutableError(f"{path} was changed or cut short; copy it again or build the model again")
    if not (0 <= offset and 0 <= length and offset + length <= size - _END.size):
        raise ExecutableError(f"{path} does not say where its description is; build the model again")
    file.seek(offset)
    return file.read(length), size


def _linked_bytes(head: bytes) -> int:
    """The end of the table of sections, which linkers write last, as the beginning of a file of 64 bits says."""
    if head[4:5] != b"\x02":
        return 0
    order = "<" if head[5] == 1 else ">"
    (sections,) = struct.unpack_from(order + "Q", head, 0x28)
    each, count = struct.unpack_from(order + "HH", head, 0x3A)
    return int(sections + each * count)


def _digest(file: BinaryIO, size: int) -> bytes:
    """SHA-256 of the first bytes of a file."""
    file.seek(0)
    found, left = hashlib.sha256(), size
    while left and (part := file.read(min(left, _CHUNK))):
        found.update(part)
        left -= len(part)
    return found.digest()


def _require_form(description: Any, size: int) -> None:
    """Refuse what whoever loads a model would stumble over; a TypeError or ValueError says what it is."""
    if not isinstance(description.get("prefix", ""), str):
        raise TypeError("the prefix is no name")
    for name, entry in description["functions"].items():
        if not isinstance(entry["kind"], str) or not all(
            isinstance(item, dict) for item in entry.get("params", ())
        ):
            raise TypeError(f"function {name!r} is of no kind, or of arguments that are none")
        if not all(isinstance(item.get("shape"), list | None) for item in entry.get("params", ())):
            raise TypeError(f"function {name!r} has an argument whose shape is none")
    target = description.get("target", {})
    texts = (target.get(key, "") for key in ("text", "machine", "cpu"))
    if not all(isinstance(item, str) for item in (*texts, *target.get("features", ()))):
        raise TypeError("the target is not described by names")
    _require_provenance(description.get("provenance", {"kernels": []}))
    for entry in description.get("constants", ()):
        count = 1
        for extent in entry["shape"]:
            count *= _whole(extent)
        if _whole(entry["offset"]) + count * numpy_dtype(entry["dtype"]).itemsize > size:
            raise ValueError("a constant ends behind the library")


def _require_provenance(provenance: Any) -> None:
    for part in ("model", "versions", "licences"):
        if not all(isinstance(item, str) for pair in provenance.get(part, {}).items() for item in pair):
            raise TypeError(f"the {part} of the provenance are no texts by name")
    for kernel in provenance["kernels"]:
        if not isinstance(kernel["name"], str) or not isinstance(kernel["source"], str):
            raise TypeError("a kernel of the provenance has no name or no source")
        if "record" in kernel and not (isinstance(kernel["record"], str) and 0 <= kernel["seconds"] < 1e9):
            raise ValueError("a record of the provenance has no name or no time")


def _whole(number: Any) -> int:
    if type(number) is not int or number < 0:
        raise ValueError(f"{number!r:.50} is no extent")
    return number
