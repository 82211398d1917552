"""Tags: short names of whole targets, such as ``nvidia/nvidia-a100``."""

from __future__ import annotations

from typing import Any

from .error import TargetError

_TAGS: dict[str, dict[str, Any]] = {}


def register_tag(name: str, config: dict[str, Any], override: bool = False) -> None:
    """Make ``Target(name)`` stand for ``config``; raises TargetError when the tag exists and ``override`` is False."""
    if name in _TAGS and not override:
        raise TargetError(f"target tag {name!r} is registered already; pass override=True to replace it")
    _TAGS[name] = dict(config)


def find_tag(name: str) -> dict[str, Any] | None:
    """The configuration of a tag, or None."""
    return _TAGS.get(name)


def list_tags() -> dict[str, dict[str, Any]]:
    """Every tag with its configuration."""
    return dict(sorted(_TAGS.items()))


# name, compute architecture, shared memory per block, level-2 cache (bytes), multiprocessors, clock (MHz, boost), memory (GB/s);
# the last three from NVIDIA's data sheets
for _name, _arch, _shared, _l2, _processors, _clock, _bandwidth in (
    ("nvidia/tesla-p100", "sm_60", 49152, 4 << 20, 56, 1480, 732),
    ("nvidia/tesla-v100", "sm_70", 49152, 6 << 20, 80, 1530, 900),
    ("nvidia/nvidia-v100", "sm_70", 49152, 6 << 20, 80, 1530, 900),
    ("nvidia/tesla-t4", "sm_75", 49152, 4 << 20, 40, 1590, 320),
    ("nvidia/nvidia-t4", "sm_75", 49152, 4 << 20, 40, 1590, 320),
    ("nvidia/nvidia-a10g", "sm_86", 49152, 6 << 20, 80, 1710, 600),
    ("nvidia/nvidia-a100", "sm_80", 49152, 40 << 20, 108, 1410, 1555),
    ("nvidia/nvidia-h100", "sm_90a", 49152, 50 << 20, 132, 1980, 3350),
    ("nvidia/nvidia-h200", "sm_90a", 49152, 50 << 20, 132, 1980, 4800),
    ("nvidia/geforce-rtx-2080-ti", "sm_75", 49152, 5632 << 10, 68, 1545, 616),
    ("nvidia/geforce-rtx-3070", "sm_86", 49152, 4 << 20, 46, 1725, 448),
    ("nvidia/geforce-rtx-3080", "sm_86", 49152, 5 << 20, 68, 1710, 760),
    ("nvidia/geforce-rtx-3090", "sm_86", 49152, 6 << 20, 82, 1695, 936),
    ("nvidia/geforce-rtx-4090", "sm_89", 49152, 72 << 20, 128, 2520, 1008),
    ("nvidia/jetson-orin-nano", "sm_87", 49152, 2 << 20, 8, 625, 68),
):
    register_tag(
        _name,
        {
            "kind": "cuda",
            "keys": ["cuda", "gpu"],
            "arch": _arch,
            "max_shared_memory_per_block": _shared,
            "max_threads_per_block": 1024,
            "thread_warp_size": 32,
            "registers_per_block": 65536,
            "l2_cache_size_bytes": _l2,
            "multi_processor_count": _processors,
            "clock_mhz": _clock,
            "memory_gb_per_s": _bandwidth,
        },
    )
for _name, _cpu, _cores in (
    ("aws/cpu/c5.large", "skylake-avx512", 1),
    ("aws/cpu/c5.xlarge", "skylake-avx512", 2),
    ("aws/cpu/c5.2xlarge", "skylake-avx512", 4),
    ("aws/cpu/c5.4xlarge", "skylake-avx512", 8),
    ("aws/cpu/c5.9xlarge", "skylake-avx512", 18),
    ("aws/cpu/c5.12xlarge", "cascadelake", 24),
):
    register_tag(_name, {"kind": "llvm", "keys": ["x86", "cpu"], "mcpu": _cpu, "num-cores": _cores})
register_tag(
    "raspberry-pi/4b-aarch64",
    {
        "kind": "llvm",
        "mtriple": "aarch64-linux-gnu",
        "mcpu": "cortex-a72",
        "mattr": ["+neon"],
        "num-cores": 4,
        "host": {
            "kind": "llvm",
            "mtriple": "aarch64-linux-gnu",
            "mcpu": "cortex-a72",
            "mattr": ["+neon"],
            "num-cores": 4,
        },
    },
)
