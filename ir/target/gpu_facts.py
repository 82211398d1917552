"""What a multiprocessor of each CUDA architecture has (CUDA C++ Programming Guide, "Compute Capabilities" and "Arithmetic Instructions").

Numbers of multiprocessors, clocks and bandwidths belong to a card; those of a family belong here.
"""

from __future__ import annotations

from dataclasses import dataclass

ACCESS_BYTES = 16
"""What a thread reads or writes at once at most, on every architecture."""


@dataclass(frozen=True)
class MultiprocessorFacts:
    """One multiprocessor; throughputs are results per cycle."""

    threads: int
    """That are resident at a time."""
    blocks: int
    """That are resident at a time."""
    shared_memory_bytes: int
    registers: int
    """Of 32 bits."""
    float32_lanes: int
    float64_lanes: int
    int32_lanes: int
    special_lanes: int
    """Of units for exponentials, reciprocals and the like."""
    schedulers: int
    """Instructions of warps that begin in a cycle."""


_FACTS = {
    60: MultiprocessorFacts(2048, 32, 64 << 10, 65536, 64, 32, 64, 16, 2),
    61: MultiprocessorFacts(2048, 32, 96 << 10, 65536, 128, 4, 128, 32, 4),
    70: MultiprocessorFacts(2048, 32, 96 << 10, 65536, 64, 32, 64, 16, 4),
    72: MultiprocessorFacts(2048, 32, 96 << 10, 65536, 64, 32, 64, 16, 4),
    75: MultiprocessorFacts(1024, 16, 64 << 10, 65536, 64, 2, 64, 16, 4),
    80: MultiprocessorFacts(2048, 32, 164 << 10, 65536, 64, 32, 64, 16, 4),
    86: MultiprocessorFacts(1536, 16, 100 << 10, 65536, 128, 2, 64, 16, 4),
    87: MultiprocessorFacts(1536, 16, 164 << 10, 65536, 128, 2, 64, 16, 4),
    89: MultiprocessorFacts(1536, 24, 100 << 10, 65536, 128, 2, 64, 16, 4),
    90: MultiprocessorFacts(2048, 32, 228 << 10, 65536, 128, 64, 64, 16, 4),
    100: MultiprocessorFacts(2048, 32, 228 << 10, 65536, 128, 64, 64, 16, 4),
    120: MultiprocessorFacts(1536, 32, 100 << 10, 65536, 128, 2, 64, 16, 4),
}


def multiprocessor_facts(arch: str) -> MultiprocessorFacts:
    """The facts of an architecture such as ``"sm_90a"``; of one that is not known those of the newest before it.

    >>> multiprocessor_facts("sm_80").float32_lanes
    64
    >>> multiprocessor_facts("sm_88") == multiprocessor_facts("sm_87")
    True
    """
    digits = "".join(item for item in arch.removeprefix("sm_") if item.isdigit())
    number = int(digits) if digits else max(_FACTS)
    known = [item for item in _FACTS if item <= number] or [min(_FACTS)]
    return _FACTS[max(known)]
