"""What a multiprocessor of each CUDA architecture has (CUDA C++ Programming Guide, "Compute Capabilities" and "Arithmetic Instructions").

Numbers of multiprocessors, clocks and bandwidths belong to a card; those of a family belong here.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from .error import TargetError

ACCESS_BYTES = 16
"""What a thread reads or writes at once at most, on every architecture."""


MAX_REGISTERS_OF_THREAD = 255
"""Of 32 bits, on every architecture."""
WARP = 32
"""Threads that run together, on every architecture."""
BANKS, BANK_BYTES = 32, 4
"""Banks of shared memory, each of which gives a warp one word at a time, and the bytes of a word; on every architecture."""
MAX_BLOCKS_ASIDE = (1 << 16) - 1
"""Blocks of a grid along y and along z, on every architecture; along x there are more than anybody needs."""
STATIC_SHARED_MEMORY_BYTES = 48 << 10
"""Shared memory of a block whose size the program says, at most, on every architecture; more is asked for at the launch."""

MOST_BLOCKS = {"x": (1 << 31) - 1, "y": 65535, "z": 65535}
"""Blocks of a launch along each axis (CUDA C++ Programming Guide, "Compute Capabilities")."""


@dataclass(frozen=True)
class MultiprocessorFacts:
    """One multiprocessor; throughputs are results per cycle."""

    threads: int
    """That are resident at a time."""
    blocks: int
    """That are resident at a time."""
    shared_memory_bytes: int
    shared_memory_per_block_optin: int
    """Bytes that a block may have if the launch asks for more than :data:`STATIC_SHARED_MEMORY_BYTES`."""
    registers: int
    """Of 32 bits; a block may have 65536 of them at most."""
    float32_lanes: int
    float64_lanes: int
    int32_lanes: int
    special_lanes: int
    """Of units for exponentials, reciprocals and the like."""
    schedulers: int
    """Instructions of warps that begin in a cycle; each scheduler has a part of the registers, for the warps that are its own."""
    shared_memory_unit: int
    """Bytes of which a block gets a multiple."""
    reserved_shared_memory_bytes: int
    """Of each block, for the system."""
    register_unit: int = 256
    """Registers of which a warp gets a multiple."""
    max_threads_per_block: int = 1024
    warp_size: int = WARP
    registers_per_block: int = 65536


_ARCHITECTURE = re.compile(r"sm_(\d+)[a-z]?")
_KIB = 1 << 10
_COLUMNS = (
    "threads", "blocks", "shared_memory_bytes", "shared_memory_per_block_optin", "registers",
    "float32_lanes", "float64_lanes", "int32_lanes", "special_lanes", "schedulers",
)  # fmt: skip
_ROWS = {
    37: (2048, 16, 112 * _KIB, 48 * _KIB, 131072, 192, 64, 160, 32, 4),
    53: (2048, 32, 64 * _KIB, 48 * _KIB, 65536, 128, 4, 128, 32, 4),
    60: (2048, 32, 64 * _KIB, 48 * _KIB, 65536, 64, 32, 64, 16, 2),
    61: (2048, 32, 96 * _KIB, 48 * _KIB, 65536, 128, 4, 128, 32, 4),
    62: (2048, 32, 64 * _KIB, 48 * _KIB, 65536, 128, 4, 128, 32, 4),
    70: (2048, 32, 96 * _KIB, 96 * _KIB, 65536, 64, 32, 64, 16, 4),
    75: (1024, 16, 64 * _KIB, 64 * _KIB, 65536, 64, 2, 64, 16, 4),
    80: (2048, 32, 164 * _KIB, 163 * _KIB, 65536, 64, 32, 64, 16, 4),
    86: (1536, 16, 100 * _KIB, 99 * _KIB, 65536, 128, 2, 64, 16, 4),
    87: (1536, 16, 164 * _KIB, 163 * _KIB, 65536, 128, 2, 64, 16, 4),
    89: (1536, 24, 100 * _KIB, 99 * _KIB, 65536, 128, 2, 64, 16, 4),
    90: (2048, 32, 228 * _KIB, 227 * _KIB, 65536, 128, 64, 64, 16, 4),
    100: (2048, 32, 228 * _KIB, 227 * _KIB, 65536, 128, 64, 64, 16, 4),
    101: (1536, 24, 228 * _KIB, 227 * _KIB, 65536, 128, 2, 64, 16, 4),
    103: (2048, 32, 228 * _KIB, 227 * _KIB, 65536, 128, 2, 64, 16, 4),
    110: (1536, 24, 228 * _KIB, 227 * _KIB, 65536, 128, 2, 64, 16, 4),
    120: (1536, 24, 100 * _KIB, 99 * _KIB, 65536, 128, 2, 64, 16, 4),
}
_FACTS = {
    number: MultiprocessorFacts(
        **dict(zip(_COLUMNS, row)),
        shared_memory_unit=128 if number >= 80 else 256,
        reserved_shared_memory_bytes=_KIB if number >= 80 else 0,
    )
    for number, row in _ROWS.items()
}


def multiprocessor_facts(arch: str) -> MultiprocessorFacts:
    """The facts of an architecture such as ``"sm_90a"``; of one that is not known those of the newest before it.

    >>> multiprocessor_facts("sm_80").float32_lanes
    64
    >>> multiprocessor_facts("sm_88") == multiprocessor_facts("sm_87")
    True

    Raises:
        TargetError: the architecture is not written so.
    """
    number = architecture_number(arch)
    return _FACTS[max((item for item in _FACTS if item <= number), default=min(_FACTS))]


def architecture_number(arch: str) -> int:
    """Ten times the compute capability.

    >>> architecture_number("sm_90a"), architecture_number("sm_120")
    (90, 120)

    Raises:
        TargetError: the architecture is not written so.
    """
    match = _ARCHITECTURE.fullmatch(arch) if isinstance(arch, str) else None
    if match is None:
        got = repr(arch) if isinstance(arch, str) else type(arch).__name__
        hint = "; that of a target is target.arch" if hasattr(arch, "arch") else ""
        raise TargetError(f"a CUDA architecture is written as in 'sm_80' or 'sm_90a', got {got}{hint}")
    return int(match[1])
