"""What a kernel's source holds of ``prelude/*.cuh``: the functions that it calls, and the functions and macros that these are made of."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path

_FILES = ("tensor_cores.cuh", "warp_groups.cuh")
_SHARED_ADDRESS = "ptx_shared_address"
"""A function that others of the second file call."""
_MACRO = re.compile(r"^#define (\w+)\(.*?(?<!\\)$", re.M | re.S)
_USE = re.compile(r"^(PTX_\w+)\((\w+), .*\)$", re.M)
_FUNCTION = re.compile(
    r"^(?:template <[^\n]*>\n)?__device__ __forceinline__ [\w ]+? (\w+)\((?:[^\n]*\}|.*?^\})$", re.M | re.S
)
_COPIES = "PTX_CP_ASYNC"


@lru_cache(maxsize=1)
def _parts() -> tuple[dict[str, str], dict[str, str]]:
    """Macros by name, and by the name of a function the line or the lines that define it."""
    folder = Path(__file__).parent / "prelude"
    text = "".join((folder / name).read_text(encoding="utf-8") for name in _FILES)
    macros = {found[1]: found[0] for found in _MACRO.finditer(text)}
    functions = {found[1]: found[0] for found in _FUNCTION.finditer(text)}
    for found in _USE.finditer(text):
        names = [found[2]]
        if found[1] == _COPIES:  # one line for a copy, and for one under a condition
            names = [f"ptx_cp_async_{found[2]}", f"ptx_cp_async_{found[2]}_zfill"]
        functions.update(dict.fromkeys(names, found[0]))
    return macros, functions


def prelude_functions() -> frozenset[str]:
    """The names of all functions."""
    return frozenset(_parts()[1])


def prelude_text(names: Iterable[str]) -> str:
    """The definitions of some functions, for the device alone: the emulation has its own; nothing of none.

    >>> print(prelude_text(["ptx_cp_async_commit_group"]))
    #if defined(__CUDA_ARCH__)
    __device__ __forceinline__ void ptx_cp_async_commit_group() { asm volatile("cp.async.commit_group;" : : : "memory"); }
    #endif
    """
    macros, functions = _parts()
    lines = list(dict.fromkeys(functions[name] for name in sorted(names)))
    if any(_SHARED_ADDRESS in line for line in lines):
        lines = list(dict.fromkeys([functions[_SHARED_ADDRESS], *lines]))
    if not lines:
        return ""
    used: dict[str, str] = {}

    def use(text: str) -> None:
        for name, macro in macros.items():
            if name not in used and re.search(rf"\b{name}\(", text):
                use(macro.partition(")")[2])
                used[name] = macro

    for line in lines:
        use(line)
    return "\n".join(["#if defined(__CUDA_ARCH__)", *used.values(), *lines, "#endif"])
