"""How much shared memory a kernel declares, as its compiled library says: ``__shared__`` variables are its thread-local symbols."""

from __future__ import annotations

import re
import struct
from collections import Counter

_MAGIC = b"\x7fELF\x02\x01"
"""64 bits, little-endian."""
_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_SYMBOL_TABLE = 2
_THREAD_LOCAL = 6
_VARIABLE_OF_FUNCTION = re.compile(rb"_ZZ(\d+)")
"""The Itanium C++ ABI's name of a variable in a function: behind this, as many letters are the function's name."""


def static_shared_bytes(library: bytes) -> Counter[str]:
    """Bytes of the ``__shared__`` variables that each function has itself, by its name.

    Args:
        library: an ELF file of 64 bits (System V ABI, "Object Files"). Of other formats nothing is said.
    """
    found: Counter[str] = Counter()
    if not library.startswith(_MAGIC):
        return found
    header = _HEADER.unpack_from(library)
    start, size, count = header[6], header[11], header[12]
    sections = [_SECTION.unpack_from(library, start + i * size) for i in range(count)]
    for _, kind, _, _, offset, length, link, _, _, _ in sections:
        if kind != _SYMBOL_TABLE:
            continue
        names = sections[link][4]
        for name, info, _, _, _, symbol_bytes in _SYMBOL.iter_unpack(library[offset : offset + length]):
            if info & 0xF != _THREAD_LOCAL:
                continue
            if inside := _VARIABLE_OF_FUNCTION.match(library, names + name):
                function = library[inside.end() : inside.end() + int(inside[1])]
                found[function.decode()] += symbol_bytes
    return found
