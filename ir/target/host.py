"""Facts about the machine that this process runs on: cpu name, features, vectors, caches, cores.

LLVM (through llvmlite, imported when first asked) names the cpu and its features; caches come from sysfs. The environment
variable ``LOOPSMITH_HOST_CPU`` takes the place of what is found: code is then made for that cpu (``x86-64-v3``, say), which
the real one must be able to run.
"""

from __future__ import annotations

import os
import platform
import re
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

_SYSFS_CACHE = Path("/sys/devices/system/cpu/cpu0/cache")
_MOST_L3_BYTES_OF_A_CORE = 32 << 20
"""No processor has a larger last-level cache for each of its cores. A virtual machine that has a few of them may say that it has all of
the cache (480 MiB for two cores); what it counts on beyond this bound its neighbours take."""


@dataclass(frozen=True)
class CpuFacts:
    """What schedules and cost models want to know of a cpu. The defaults are typical, for cpus of which only the name is known."""

    vector_bits: int
    vector_registers: int
    l1_cache_bytes: int = 32 << 10
    l2_cache_bytes: int = 512 << 10
    l3_cache_bytes: int = 16 << 20
    cache_line_bytes: int = 64
    l1_cache_ways: int = 8
    l2_cache_ways: int = 8
    l3_cache_ways: int = 16
    l3_cache_cores: int | None = None
    """Cores that share one last-level cache; None for all of them."""


@dataclass(frozen=True)
class HostInfo:
    """The host, as found."""

    cpu: str
    """LLVM's name, such as ``znver5``."""
    triple: str
    features: tuple[str, ...]
    """The features that the host has, sorted, without signs; none where they follow from a given name."""
    flags: str
    """What LLVM is told of the features: ``+avx2,-sse4a``, or nothing where they follow from a given name."""
    cores: int
    """Cores that this process may use (its affinity mask and control group counted)."""
    facts: CpuFacts
    model_name: str = ""

    @property
    def vector_bits(self) -> int:
        """Bits of a vector register."""
        return self.facts.vector_bits

    @property
    def vector_registers(self) -> int:
        """Number of vector registers."""
        return self.facts.vector_registers


def vector_facts(arch: str, features: frozenset[str]) -> tuple[int, int]:
    """(bits, registers) of the vector unit that these LLVM features describe; ``arch`` as in a triple."""
    if arch.startswith(("aarch64", "arm64")):
        return (128, 32)  # SVE's length is not among the features; NEON is the safe width
    if arch.startswith(("riscv", "wasm")):
        return (128, 32)
    if "avx512f" in features or "avx10.1" in features:
        return (512, 32)
    if not features.isdisjoint(("avx", "avx2", "fma")):
        return (256, 16)
    return (128, 16)


_NEEDS = {
    "sse3": ("sse2",),
    "ssse3": ("sse3",),
    "sse4.1": ("ssse3",),
    "sse4.2": ("sse4.1",),
    "avx": ("sse4.2",),
    "avx2": ("avx",),
    "fma": ("avx",),
    "f16c": ("avx",),
    "avx512f": ("avx2", "fma", "f16c"),
    "avx10.1": ("avx512f",),
}
"""What LLVM switches on along with a feature, and what it switches the feature off with."""


def _with_needs(feature: str) -> set[str]:
    """A feature and all that it needs."""
    return {feature}.union(*[_with_needs(item) for item in _NEEDS.get(feature, ())])


def _switched(features: frozenset[str], switches: tuple[str, ...]) -> frozenset[str]:
    """Features after ``+avx2`` and ``-fma``, one after the other."""
    found = set(features)
    for switch in switches:
        name = switch[1:]
        if switch.startswith("+"):
            found |= _with_needs(name)
        else:
            found = {item for item in found if name not in _with_needs(item)}
    return frozenset(found)


def available_cores() -> int:
    """Cores that this process may use: its affinity mask, capped by the control group's quota."""
    try:
        cores = len(os.sched_getaffinity(0))
    except AttributeError:  # not on Linux
        cores = os.cpu_count() or 1
    try:
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text().split()
        if quota != "max":
            cores = min(cores, max(1, round(int(quota) / int(period))))
    except (OSError, ValueError):
        pass  # no control groups of version 2
    return max(1, cores)


def _cache_facts() -> dict[str, Any]:
    """Fields of :class:`CpuFacts` that the kernel tells of the caches of the first core; empty where sysfs is absent."""
    found: dict[str, Any] = {}
    for entry in sorted(_SYSFS_CACHE.glob("index*")):
        if _read(entry / "type") == "Instruction":
            continue
        level = _read(entry / "level")
        size = re.fullmatch(r"(\d+)([KMG])", _read(entry / "size"))
        if level not in ("1", "2", "3") or size is None:
            continue  # a level that the kernel does not describe
        found[f"l{level}_cache_bytes"] = int(size[1]) << {"K": 10, "M": 20, "G": 30}[size[2]]
        ways = _read(entry / "ways_of_associativity")
        if ways.isdigit() and int(
            ways
        ):  # 0 for a cache whose lines may be anywhere, or where nothing is known
            found[f"l{level}_cache_ways"] = int(ways)
        line = _read(entry / "coherency_line_size")
        if level == "1" and line.isdigit() and int(line):
            found["cache_line_bytes"] = int(line)
        sharing = _count(_read(entry / "shared_cpu_list"))
        if level == "3" and sharing:
            found["l3_cache_cores"] = sharing
    if "l2_cache_bytes" in found and "l3_cache_bytes" not in found:  # the second level is the last
        found["l3_cache_bytes"] = found["l2_cache_bytes"]
        found["l3_cache_cores"] = 1
        if "l2_cache_ways" in found:
            found["l3_cache_ways"] = found["l2_cache_ways"]
    if "l3_cache_bytes" in found:
        most = _MOST_L3_BYTES_OF_A_CORE * found.get("l3_cache_cores", available_cores())
        found["l3_cache_bytes"] = min(found["l3_cache_bytes"], most)
    return found


@lru_cache(maxsize=1)
def last_level_cache_bytes() -> int:
    """Bytes that the last-level caches of the cores that this process may use hold together; LLVM is not asked.

    Processors of several dies have a cache each, of which sysfs describes one and how many cores share it.
    """
    facts = CpuFacts(vector_bits=0, vector_registers=0, **_cache_facts())
    caches = 1 if facts.l3_cache_cores is None else -(-available_cores() // facts.l3_cache_cores)
    return facts.l3_cache_bytes * caches


def _read(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""


def _count(cpus: str) -> int:
    """How many cpus a list of the kernel's names; 0 for none.

    >>> _count("0-7,64-71"), _count("3"), _count("")
    (16, 1, 0)
    """
    count = 0
    for part in filter(None, cpus.split(",")):
        first, _, last = part.partition("-")
        count += int(last or first) - int(first) + 1
    return count


def _model_name() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass  # not Linux
    return platform.processor()


@lru_cache(maxsize=1)
def host_info() -> HostInfo:
    """The host's facts, found once per process."""
    import llvmlite.binding as llvm

    cpu = os.environ.get("LOOPSMITH_HOST_CPU", "")
    triple = str(llvm.get_process_triple())
    features: frozenset[str] = frozenset()
    flags = ""
    if cpu:
        bits, registers = _vectors_of_cpu(cpu, triple)
    else:
        cpu = str(llvm.get_host_cpu_name())
        found = llvm.get_host_cpu_features()
        features = frozenset(name for name, present in found.items() if present)
        flags = found.flatten()
        bits, registers = vector_facts(triple, features)
    facts = CpuFacts(bits, registers, **_cache_facts())
    return HostInfo(cpu, triple, tuple(sorted(features)), flags, available_cores(), facts, _model_name())


_FEATURES_BY_CPU: tuple[tuple[tuple[str, ...], tuple[int, int]], ...] = (
    # Names of cpus (by prefix) that have AVX-512, then AVX; (bits, registers).
    (
        ("znver4", "znver5", "skylake-avx512", "cascadelake", "cooperlake", "icelake", "cannonlake", "tigerlake", "rocketlake",
         "sapphirerapids", "emeraldrapids", "graniterapids", "diamondrapids", "knl", "knm", "x86-64-v4"),
        (512, 32),
    ),
    (
        ("znver", "haswell", "broadwell", "skylake", "alderlake", "raptorlake", "meteorlake", "arrowlake", "lunarlake",
         "core-avx", "sandybridge", "ivybridge", "bdver", "x86-64-v3", "btver2", "gracemont", "sierraforest"),
        (256, 16),
    ),
    (("neoverse", "cortex-a", "apple-", "a64fx", "ampere", "grace", "thunderx", "carmel", "kryo"), (128, 32)),
)  # fmt: skip


_FEATURE_OF_VECTORS = {(512, 32): "avx512f", (256, 16): "avx", (128, 16): "sse2"}
"""What a processor has that has vectors of so many bits and so many registers for them."""


def _vectors_of_cpu(cpu: str, triple: str) -> tuple[int, int]:
    """(bits, registers) of the vector unit of a cpu by LLVM's name, where nothing is known of its features."""
    for prefixes, vectors in _FEATURES_BY_CPU:
        if cpu.startswith(prefixes):
            return vectors
    return vector_facts(triple.split("-")[0] or "x86_64", frozenset())


def facts_of_cpu(cpu: str, triple: str = "", features: tuple[str, ...] = ()) -> CpuFacts:
    """Facts of a cpu by LLVM's name: the host's own where it is the host, else by a table and typical caches.

    Args:
        cpu: the name; without it and without a triple, the host's.
        triple: what tells the architecture where there is no name.
        features: switched on and off, in this order: ``+avx2``, ``-fma``.
    """
    host = _host_if_named(cpu) if cpu or triple else host_info()
    if host is not None and not features:
        return host.facts
    if host is not None and host.features:
        bits, registers = vector_facts(host.triple, _switched(frozenset(host.features), features))
        return replace(host.facts, vector_bits=bits, vector_registers=registers)
    bits, registers = _vectors_of_cpu(cpu or (host.cpu if host is not None else ""), triple)
    if features and (bits, registers) in _FEATURE_OF_VECTORS:
        known = frozenset(_with_needs(_FEATURE_OF_VECTORS[bits, registers]))
        bits, registers = vector_facts(triple.split("-")[0] or "x86_64", _switched(known, features))
    return CpuFacts(bits, registers)


def _host_if_named(cpu: str) -> HostInfo | None:
    host = host_info()
    return host if host.cpu == cpu or cpu == "native" else None


def fingerprint() -> dict[str, Any]:
    """What a tuning record says of the machine that it was measured on, as plain JSON values."""
    host = host_info()
    return {
        "cpu": host.cpu,
        "model_name": host.model_name,
        "triple": host.triple,
        "cores": host.cores,
        "features": list(host.features),
        **asdict(host.facts),
    }
