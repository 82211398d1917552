"""What a built model says of itself: functions, arguments, constants and the processor that it needs, as plain data.

The same dictionary travels in memory with an :class:`~runners.executable.Executable` and as a JSON text inside a shared
library, so that running an artefact needs no compiler. :data:`FORMAT` changes whenever a reader of an older one would
misread it.
"""

from __future__ import annotations

import platform
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from typing import Any

from .error import RunnerError

FORMAT = 7
"""Version of the metadata; a library of another version is refused with both numbers."""

CONSTANTS_SYMBOL = "loopsmith_constants"
"""The bytes of all constants of the shared library, one behind the other at the offsets that the metadata names."""

DEVICE_CODE_SYMBOL = "loopsmith_device_code"
"""What a device runs, see :mod:`runners.device_code`; libraries for processors do not have it."""

# LLVM's names of features, and what Linux calls them, where the two differ.
_LINUX_NAMES = {
    "sse3": "pni",
    "sse4.1": "sse4_1",
    "sse4.2": "sse4_2",
    "lzcnt": "abm",
    "avx512vpopcntdq": "avx512_vpopcntdq",
    "avx512vnni": "avx512_vnni",
    "avx512bf16": "avx512_bf16",
    "avx512fp16": "avx512_fp16",
    "avx512vbmi2": "avx512_vbmi2",
    "avx512bitalg": "avx512_bitalg",
    "avx512vp2intersect": "avx512_vp2intersect",
    "avxvnni": "avx_vnni",
    "amx-tile": "amx_tile",
    "amx-int8": "amx_int8",
    "amx-bf16": "amx_bf16",
    "dotprod": "asimddp",
    "fullfp16": "asimdhp",
    "neon": "asimd",
    "sve": "sve",
    "sve2": "sve2",
    "i8mm": "i8mm",
    "bf16": "bf16",
}
#: Features whose instructions LLVM puts into ordinary code; others (such as clflush) never matter to a kernel.
CHECKED_FEATURES = frozenset(_LINUX_NAMES) | frozenset(
    "avx avx2 fma f16c bmi1 bmi2 popcnt movbe avx512f avx512cd avx512dq avx512bw avx512vl avx512vbmi avx512ifma".split()
)


class ExecutableError(RunnerError):
    """A built model cannot be loaded, exported or called."""


class ArgumentError(ExecutableError, TypeError, ValueError):
    """An argument of a model's function has the wrong shape, dtype or kind; the message names it."""


@lru_cache(maxsize=1)
def host_flags() -> frozenset[str] | None:
    """The processor's features as Linux names them; None where the system does not tell."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    for line in text.splitlines():
        name, _, value = line.partition(":")
        if name.strip() in ("flags", "Features"):
            return frozenset(value.split())
    return None


def missing_features(required: Iterable[str]) -> list[str]:
    """Those of LLVM's feature names in ``required`` that this processor does not have (empty when unknown)."""
    flags = host_flags()
    if flags is None:
        return []
    return sorted(
        feature
        for feature in required
        if feature in CHECKED_FEATURES and _LINUX_NAMES.get(feature, feature) not in flags
    )


def check_compatible(metadata: dict[str, Any], name: str) -> None:
    """Refuse a model that this machine or this version cannot run.

    Raises:
        ExecutableError: another format, another processor architecture, or missing processor features.
    """
    version = metadata.get("format")
    if version != FORMAT:
        raise ExecutableError(
            f"{name} has format {version}, this version of loopsmith reads format {FORMAT}; build the model again"
        )
    target = metadata.get("target", {})
    machine = target.get("machine", "")
    here = platform.machine().lower()
    if machine and machine != here:
        raise ExecutableError(
            f"{name} was built for {machine} processors, this machine is {here}; build it for this target"
        )
    missing = missing_features(target.get("features", ()))
    if missing:
        raise ExecutableError(
            f"{name} was built for {target.get('cpu') or 'another processor'} and needs {', '.join(missing)}, which this "
            "machine's processor does not have; build it with a target such as 'llvm -mcpu=x86-64-v3' that both share"
        )
