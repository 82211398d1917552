"""What an object file needs of whoever loads it.

LLVM calls functions that no program names (conversions, wide division, remainders of floats); where one is missing, its loader ends
the process, so the names are read here before.
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
_UNDEFINED = 0
_WEAK = 2


@dataclass(frozen=True)
class Symbols:
    """Names in an object file, in the order of its table."""

    defined: list[str]
    undefined: list[str]
    """What it uses and does not define; weak symbols may stay undefined and are not here."""


def symbols(code: bytes) -> Symbols:
    """The symbols of an object file.

    Args:
        code: the bytes of an ELF file of 64 bits (System V ABI, "Object Files"). Of other formats nothing is said: both lists are empty.
    """
    found = Symbols([], [])
    if not code.startswith(_MAGIC):
        return found
    header = _HEADER.unpack_from(code)
    start, size, count = header[6], header[11], header[12]
    sections = [_SECTION.unpack_from(code, start + i * size) for i in range(count)]
    for _, kind, _, _, offset, length, link, _, _, _ in sections:
        if kind != _SYMBOL_TABLE:
            continue
        names = sections[link][4]
        for name, info, _, section, _, _ in _SYMBOL.iter_unpack(code[offset : offset + length]):
            if name and (section != _UNDEFINED or info >> 4 != _WEAK):
                text = code[names + name : code.index(b"\0", names + name)].decode()
                (found.undefined if section == _UNDEFINED else found.defined).append(text)
    return found
