"""The tags of NVIDIA's cards: multiprocessors, clock, bandwidth and level-2 cache.

Most numbers were written down from memory of the data sheets and have not been looked up there; peak throughputs that follow from them
agree with the known ones to 3 %. ``Target("cuda")`` asks the device itself.

What follows from the architecture (threads, registers and shared memory of a multiprocessor, tensor cores)
is in ``gpu_facts.py``, ``tensor_core.py`` and ``tensor_core_rate.py``.
"""

from __future__ import annotations

from typing import NamedTuple

from .gpu_facts import STATIC_SHARED_MEMORY_BYTES
from .tag import register_tag

_MIB = 1 << 20
_KIB = 1 << 10


class _Card(NamedTuple):
    name: str
    """As the field writes it, without ``nvidia/``."""
    arch: str
    multiprocessors: int
    clock_mhz: int
    """When boosted."""
    memory_gb_per_s: int
    l2_bytes: int
    registers_per_block: int = 65536


_CARDS = (
    # data centre
    _Card("tesla-k80", "sm_37", 13, 875, 240, 1536 * _KIB),  # one of the card's two devices
    _Card("tesla-p4", "sm_61", 20, 1063, 192, 2 * _MIB),
    _Card("tesla-p40", "sm_61", 30, 1531, 346, 3 * _MIB),
    _Card("tesla-p100", "sm_60", 56, 1480, 732, 4 * _MIB),
    _Card("tesla-v100", "sm_70", 80, 1530, 900, 6 * _MIB),
    _Card("tesla-t4", "sm_75", 40, 1590, 320, 4 * _MIB),
    _Card("nvidia-a10", "sm_86", 72, 1695, 600, 6 * _MIB),
    _Card("nvidia-a10g", "sm_86", 80, 1710, 600, 6 * _MIB),
    _Card("nvidia-a30", "sm_80", 56, 1440, 933, 24 * _MIB),
    _Card("nvidia-a40", "sm_86", 84, 1740, 696, 6 * _MIB),
    _Card("nvidia-a100", "sm_80", 108, 1410, 1555, 40 * _MIB),
    _Card("nvidia-a100-80gb", "sm_80", 108, 1410, 2039, 40 * _MIB),
    _Card("nvidia-l4", "sm_89", 58, 2040, 300, 48 * _MIB),
    _Card("nvidia-l40", "sm_89", 142, 2490, 864, 96 * _MIB),
    _Card("nvidia-l40s", "sm_89", 142, 2520, 864, 96 * _MIB),
    _Card("nvidia-h100", "sm_90a", 132, 1980, 3350, 50 * _MIB),
    _Card("nvidia-h100-pcie", "sm_90a", 114, 1755, 2039, 50 * _MIB),
    _Card("nvidia-h100-nvl", "sm_90a", 132, 1785, 3938, 50 * _MIB),
    _Card("nvidia-h200", "sm_90a", 132, 1980, 4800, 50 * _MIB),
    _Card("nvidia-b200", "sm_100a", 148, 1965, 8000, 126 * _MIB),
    # workstation
    _Card("rtx-a4000", "sm_86", 48, 1560, 448, 4 * _MIB),
    _Card("rtx-a5000", "sm_86", 64, 1695, 768, 6 * _MIB),
    _Card("rtx-a6000", "sm_86", 84, 1800, 768, 6 * _MIB),
    # desktop
    _Card("geforce-gtx-1070", "sm_61", 15, 1683, 256, 2 * _MIB),
    _Card("geforce-gtx-1080", "sm_61", 20, 1733, 320, 2 * _MIB),
    _Card("geforce-gtx-1080-ti", "sm_61", 28, 1582, 484, 2816 * _KIB),
    _Card("geforce-rtx-2060", "sm_75", 30, 1680, 336, 3 * _MIB),
    _Card("geforce-rtx-2070", "sm_75", 36, 1620, 448, 4 * _MIB),
    _Card("geforce-rtx-2080", "sm_75", 46, 1710, 448, 4 * _MIB),
    _Card("geforce-rtx-2080-ti", "sm_75", 68, 1545, 616, 5632 * _KIB),
    _Card("geforce-rtx-3060", "sm_86", 28, 1777, 360, 3 * _MIB),
    _Card("geforce-rtx-3060-ti", "sm_86", 38, 1665, 448, 4 * _MIB),
    _Card("geforce-rtx-3070", "sm_86", 46, 1725, 448, 4 * _MIB),
    _Card("geforce-rtx-3070-ti", "sm_86", 48, 1770, 608, 4 * _MIB),
    _Card("geforce-rtx-3080", "sm_86", 68, 1710, 760, 5 * _MIB),
    _Card("geforce-rtx-3080-ti", "sm_86", 80, 1665, 912, 6 * _MIB),
    _Card("geforce-rtx-3090", "sm_86", 82, 1695, 936, 6 * _MIB),
    _Card("geforce-rtx-3090-ti", "sm_86", 84, 1860, 1008, 6 * _MIB),
    _Card("geforce-rtx-4060", "sm_89", 24, 2460, 272, 24 * _MIB),
    _Card("geforce-rtx-4060-ti", "sm_89", 34, 2535, 288, 32 * _MIB),
    _Card("geforce-rtx-4070", "sm_89", 46, 2475, 504, 36 * _MIB),
    _Card("geforce-rtx-4070-ti", "sm_89", 60, 2610, 504, 48 * _MIB),
    _Card("geforce-rtx-4080", "sm_89", 76, 2505, 717, 64 * _MIB),
    _Card("geforce-rtx-4090", "sm_89", 128, 2520, 1008, 72 * _MIB),
    _Card("geforce-rtx-5070", "sm_120a", 48, 2512, 672, 48 * _MIB),
    _Card("geforce-rtx-5070-ti", "sm_120a", 70, 2452, 896, 48 * _MIB),
    _Card("geforce-rtx-5080", "sm_120a", 84, 2617, 960, 64 * _MIB),
    _Card("geforce-rtx-5090", "sm_120a", 170, 2407, 1792, 96 * _MIB),
    # embedded; their multiprocessors read the memory of the processor
    _Card("jetson-nano", "sm_53", 1, 921, 25, 256 * _KIB, 32768),
    _Card("jetson-tx2", "sm_62", 2, 1300, 59, 512 * _KIB, 32768),
    _Card("jetson-agx-xavier", "sm_72", 8, 1377, 137, 512 * _KIB),
    _Card("jetson-orin-nano", "sm_87", 8, 625, 68, 2 * _MIB),
    _Card("jetson-agx-orin-32gb", "sm_87", 14, 930, 205, 4 * _MIB),
    _Card("jetson-agx-orin-64gb", "sm_87", 16, 1300, 205, 4 * _MIB),
)


def _names(name: str) -> list[str]:
    """The name and its other forms: without its line of products, and Tesla cards as NVIDIA calls them now.

    >>> _names("tesla-t4"), _names("geforce-rtx-3090"), _names("jetson-nano")
    (['tesla-t4', 't4', 'nvidia-t4'], ['geforce-rtx-3090', 'rtx-3090'], ['jetson-nano'])
    """
    line, _, short = name.partition("-")
    if line not in ("nvidia", "tesla", "geforce", "rtx"):
        return [name]
    return [name, short, *([f"nvidia-{short}"] if line == "tesla" else [])]


def _halves_float32_sums(card: _Card) -> bool:
    """Whether tensor cores add to float32 at half of their rate: data sheets of cards for desktops, and of the L40, say so."""
    return card.name.startswith("geforce") or card.name == "nvidia-l40"


for _card in _CARDS:
    for _name in _names(_card.name):
        register_tag(
            f"nvidia/{_name}",
            {
                "kind": "cuda",
                "keys": ["cuda", "gpu"],
                "arch": _card.arch,
                "max_shared_memory_per_block": STATIC_SHARED_MEMORY_BYTES,
                "max_threads_per_block": 1024,
                "thread_warp_size": 32,
                "registers_per_block": _card.registers_per_block,
                "l2_cache_size_bytes": _card.l2_bytes,
                "multi_processor_count": _card.multiprocessors,
                "clock_mhz": _card.clock_mhz,
                "memory_gb_per_s": _card.memory_gb_per_s,
                **({"halves_float32_sums": True} if _halves_float32_sums(_card) else {}),
            },
        )
