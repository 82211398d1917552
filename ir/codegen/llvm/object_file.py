"""What an object file needs of whoever loads it.

LLVM calls functions that no program names (conversions, wide division, remainders of floats); the names are read here, so that
those which are missing can be told by name and with a reason.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

_MAGIC = b"\x7fELF\x02\x01"
"""64 bits, little-endian."""
_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_SYMBOL_TABLE = 2
_EXECUTABLE = 4
"""The flag of sections that hold instructions."""
_UNDEFINED = 0
_LOCAL, _WEAK = 0, 2
_HIDING = 3
"""The bits of a symbol's visibility: those that others see have none."""


@dataclass(frozen=True)
class Symbols:
    """Names in an object file, in the order of its table."""

    defined: list[str]
    """What it has for others."""
    undefined: list[str]
    """What it uses and does not define; weak symbols may stay undefined and are not here."""


def code_bytes(code: bytes) -> int | None:
    """Bytes of the sections that hold instructions; None for what is no ELF file of 64 bits."""
    if not code.startswith(_MAGIC):
        return None
    return sum(size for _, _, flags, _, _, size, *_ in _sections(code) if flags & _EXECUTABLE)


def _sections(code: bytes) -> list[tuple[int, ...]]:
    header = _HEADER.unpack_from(code)
    start, size, count = header[6], header[11], header[12]
    return [_SECTION.unpack_from(code, start + i * size) for i in range(count)]


def symbols(code: bytes) -> Symbols:
    """The symbols of an object file.

    Args:
        code: the bytes of an ELF file of 64 bits (System V ABI, "Object Files"). Of other formats nothing is said: both lists are empty.
    """
    found = Symbols([], [])
    if not code.startswith(_MAGIC):
        return found
    sections = _sections(code)
    for _, kind, _, _, offset, length, link, _, _, _ in sections:
        if kind != _SYMBOL_TABLE:
            continue
        names = sections[link][4]
        for name, info, visibility, section, _, _ in _SYMBOL.iter_unpack(code[offset : offset + length]):
            binding = info >> 4
            if not name or binding == _LOCAL:
                continue
            text = code[names + name : code.index(b"\0", names + name)].decode()
            if section != _UNDEFINED and not visibility & _HIDING:
                found.defined.append(text)
            elif section == _UNDEFINED and binding != _WEAK:
                found.undefined.append(text)
    return found
