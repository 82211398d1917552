"""What is installed and what works on this machine: the first thing to look at when something does not."""

from __future__ import annotations

import os
import re
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path

from database import MemoryDatabase, software_versions
from ir.codegen.cuda.emulation.compile import find_compiler
from ir.codegen.cuda.toolkit import toolkit
from ir.codegen.error import CudaToolkitError
from ir.codegen.llvm.compile import find_linker
from ir.target import Target, host_info
from runners import WorkerPool
from runners.cuda.driver import device_count
from runners.disturbance import Watch

from .calibration import calibrate

_REQUIREMENT = re.compile(r"""^([\w.-]+).*extra == ["']([\w-]+)["']""")
_OF_DEVELOPERS = frozenset({"test", "dev"})
"""Extras that nobody else needs."""
_WATCHED_SECONDS = 0.5
_SCARCE_DISK = 1 << 30
_GOVERNOR = Path("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at."""

    topic: str
    what: str
    says: str
    advice: str = ""
    """How to mend it; empty where nothing is wrong."""
    is_problem: bool = False
    """Whether something that everybody needs does not work; what is only absent or slow is none."""


def examine(measures: bool = True) -> Iterator[Finding]:
    """Look at everything, one thing after the other.

    Args:
        measures: also measure the machine's peak and noise, which takes about three seconds.
    """
    checks: list[Callable[[], Iterator[Finding]]] = [_software, _extras, _processor, _tools, _devices, _disk]
    if measures:
        checks += [_noise, _peak]
    for check in checks:
        yield from check()


def _software() -> Iterator[Finding]:
    for name, found in software_versions().items():
        yield Finding("software", name, found)
    for name in ("xgboost-cpu", "xgboost", "optuna", "sqlalchemy"):
        if (release := _version(name)) is not None:
            yield Finding("software", name, release)


def _extras() -> Iterator[Finding]:
    """The optional packages, by the extra that brings them."""
    for extra, packages in sorted(_packages_of_extras().items()):
        versions = {name: _version(name) for name in packages}
        missing = [name for name, found in versions.items() if found is None]
        there = ", ".join(f"{name} {found}" for name, found in versions.items() if found is not None)
        if missing:
            says = f"without {', '.join(missing)}" + (f"; {there}" if there else "")
            yield Finding("extras", extra, says, f"pip install 'loopsmith[{extra}]' where it is wanted")
        else:
            yield Finding("extras", extra, there)


def _packages_of_extras() -> dict[str, list[str]]:
    try:
        stated = requires("loopsmith") or []
    except PackageNotFoundError:  # run from a source folder without an installation
        return {}
    found: dict[str, list[str]] = {}
    for text in stated:
        match = _REQUIREMENT.match(text)
        if match is not None and match[2] not in _OF_DEVELOPERS:
            found.setdefault(match[2], []).append(match[1])
    return found


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _processor() -> Iterator[Finding]:
    host = host_info()
    yield Finding("processor", "model", f"{host.model_name or host.cpu}, {host.cores} cores for this process")
    yield Finding("processor", "target", str(Target("cpu")))
    vectors = f"{host.vector_bits} bits"
    narrow = host.vector_bits < 256
    yield Finding(
        "processor",
        "vectors",
        vectors,
        "code for wider ones would be faster; does the virtual machine hide them?" if narrow else "",
    )
    special = [name for name in ("amx-tile", "avx512vnni", "avxvnni", "avx512bf16") if name in host.features]
    yield Finding("processor", "for products", ", ".join(special) or "none beyond vectors")
    if _GOVERNOR.is_file():
        governor = _GOVERNOR.read_text().strip()
        slow = governor == "powersave"
        advice = "times may vary; 'performance' makes them steadier" if slow else ""
        yield Finding("processor", "governor", governor, advice)


def _tools() -> Iterator[Finding]:
    linker = find_linker()
    yield Finding(
        "tools",
        "linker",
        linker or "none",
        "" if linker else "`loopsmith build` needs one: install gcc, clang or binutils",
        is_problem=linker is None,
    )
    compiler = find_compiler()
    yield Finding(
        "tools",
        "C++ compiler",
        compiler or "none",
        "" if compiler else "only emulating CUDA kernels needs one",
    )
    try:
        found = toolkit()
    except CudaToolkitError:
        yield Finding("tools", "NVRTC", "none", "pip install 'loopsmith[cuda]' to make code for CUDA devices")
        return
    headers = "with headers" if found.has_headers else "without headers"
    yield Finding("tools", "NVRTC", f"{found.nvrtc}, {headers}")


def _devices() -> Iterator[Finding]:
    count = device_count()
    yield Finding("devices", "CUDA devices", str(count) if count else "none")


def _disk() -> Iterator[Finding]:
    here = Path.cwd()
    free = shutil.disk_usage(here).free
    scarce = free < _SCARCE_DISK
    yield Finding(
        "disk",
        "room here",
        f"{free / 1e9:.1f} GB",
        "a tuning database and libraries may need more" if scarce else "",
    )
    writable = os.access(here, os.W_OK)
    yield Finding(
        "disk",
        "this folder",
        "writable" if writable else "read-only",
        ""
        if writable
        else "name a database and outputs elsewhere: tuning.db and model.so would be written here",
    )


def _noise() -> Iterator[Finding]:
    """What other processes, the hypervisor and the clock do while this process sleeps."""
    watch = Watch()
    watch.restart()
    time.sleep(_WATCHED_SECONDS)
    found = watch.lap()
    says = f"others use {found.others:.0%} of the cores, the hypervisor takes {found.stolen:.0%}"
    loud = found.level > 1
    yield Finding(
        "noise",
        "now",
        says,
        "measurements are repeated where they are disturbed, and take longer" if loud else "",
    )


def _peak() -> Iterator[Finding]:
    """What one core and the memory can do at most, as measured."""
    told: list[str] = []
    with WorkerPool(1) as pool:
        found = calibrate(MemoryDatabase(), pool, again=True, tell=told.append)
    if found is None:  # worker processes do not work
        yield Finding("peak", "measurement", "failed", told[-1], is_problem=True)
        return
    if found.disturbed or found.hertz is None:
        yield Finding("peak", "measurement", "disturbed by other processes", "try again on a quieter machine")
    if found.hertz is None:
        return
    lanes = host_info().vector_bits // 32
    if found.fma_per_cycle is not None:
        flops = 2 * lanes * found.fma_per_cycle * found.hertz
        yield Finding(
            "peak", "float32, one core", f"{flops / 1e9:.0f} GFLOP/s at {found.hertz / 1e9:.2f} GHz"
        )
    if found.l3_fill is not None:
        yield Finding("peak", "memory, one core", f"{found.l3_fill * found.hertz / 1e9:.1f} GB/s")
