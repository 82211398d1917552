"""What a time was measured on and with: the hardware and the versions of the software, as plain values."""

from __future__ import annotations

import os
import platform
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from typing import Any


@lru_cache(maxsize=1)
def _hardware() -> tuple[tuple[str, Any], ...]:
    facts: dict[str, Any] = {
        "machine": platform.machine(),
        "cpu": _cpu_model(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
    }
    for level, kind, name in ((1, "Data", "l1d"), (2, "Unified", "l2"), (3, "Unified", "l3")):
        size = _cache_size(level, kind)
        if size is not None:
            facts[name] = size
    return tuple(facts.items())


def hardware_fingerprint() -> dict[str, Any]:
    """Machine, processor model, usable cores and cache sizes in bytes of this computer."""
    return dict(_hardware())


def software_versions() -> dict[str, str]:
    """Versions of loopsmith, Python and what generates code."""
    found = {"python": platform.python_version()}
    for package in ("loopsmith", "llvmlite", "numpy"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:  # run from a source folder without an installation
            found[package] = "not installed"
    return found


def _cpu_model() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            for line in file:
                if line.startswith("model name"):
                    return line.split(":", 1)[1].strip()
    except OSError:  # not Linux
        pass
    return platform.processor() or "unknown"


def _cache_size(level: int, kind: str) -> int | None:
    root = "/sys/devices/system/cpu/cpu0/cache"
    try:
        for entry in sorted(os.listdir(root)):
            folder = os.path.join(root, entry)
            if (
                entry.startswith("index")
                and _read(folder, "level") == str(level)
                and _read(folder, "type") == kind
            ):
                text = _read(folder, "size")
                return int(text.rstrip("KM")) * {"K": 1024, "M": 1024**2}.get(text[-1:], 1)
    except OSError:  # no such folder in this container
        return None
    return None


def _read(folder: str, name: str) -> str:
    with open(os.path.join(folder, name), encoding="utf-8") as file:
        return file.read().strip()
