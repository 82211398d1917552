"""The native runtime that kernels call: thread pool, workspaces, last error.

Its source is ``runtime.ll`` beside this file, compiled once per process by LLVM and shared by all kernels loaded in
process.  A shared library carries its own copy of the object.
"""

from __future__ import annotations

import ctypes
import platform
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from threading import Lock

import llvmlite.binding as llvm

from ..error import CodegenError
from ..forking import hold_at_fork
from .compile import MachineOptions, emit_object, optimize
from .loaded_object import LoadedObject

#: What the runtime exports to kernels and to callers of shared libraries.
SYMBOLS = (
    "loopsmith_parallel_for",
    "loopsmith_get_num_threads",
    "loopsmith_set_num_threads",
    "loopsmith_workspace_acquire",
    "loopsmith_workspace_release",
    "loopsmith_last_error",
    "loopsmith_set_error",
    "loopsmith_use_matrix_unit",
)

#: How many parameters :meth:`Runtime.call_filled` passes on.
MOST_FILLED = 32

#: By machine: number of the futex system call; declaration and call of the intrinsic that eases a spinning core.
_X86_PAUSE = ("declare void @llvm.x86.sse2.pause()", "call void @llvm.x86.sse2.pause()")
_ARM_PAUSE = ("declare void @llvm.aarch64.hint(i32)", "call void @llvm.aarch64.hint(i32 1)")
_MACHINES = {
    "x86_64": ("202", *_X86_PAUSE),
    "amd64": ("202", *_X86_PAUSE),
    "aarch64": ("98", *_ARM_PAUSE),
    "arm64": ("98", *_ARM_PAUSE),
    "riscv64": ("98", "", ""),
}


@lru_cache(maxsize=4)
def runtime_text(machine: str = "") -> str:
    """The runtime's LLVM assembly for a machine name (``x86_64``, ``aarch64``, ...), the host's by default.

    Raises:
        CodegenError: for a machine whose system call numbers are not known here.
    """
    machine = (machine or platform.machine()).lower()
    if machine not in _MACHINES:
        raise CodegenError(
            f"the thread pool does not know machine {machine!r}; it knows {', '.join(_MACHINES)}"
        )
    futex, declaration, call = _MACHINES[machine]
    source = Path(__file__).with_name("runtime.ll").read_text(encoding="utf-8")
    return (
        source.replace("@FUTEX@", futex).replace("@DECLARE_PAUSE@", declaration).replace("@CALL_PAUSE@", call)
    )


@lru_cache(maxsize=4)
def runtime_object(options: MachineOptions = MachineOptions()) -> bytes:
    """The runtime as an object file, to be linked into shared libraries."""
    machine = options.triple.split("-")[0] if options.triple else ""
    return emit_object(optimize(runtime_text(machine), options), options)


class Runtime:
    """The runtime in this process; use :func:`runtime` to get it."""

    def __init__(self) -> None:
        self._code = LoadedObject(runtime_object())
        self.addresses = {name: self._code.address(name) for name in SYMBOLS}
        for name, address in self.addresses.items():
            llvm.add_symbol(name, address)  # kernels loaded from now on find them
        a = self.addresses
        self._set_threads = ctypes.CFUNCTYPE(None, ctypes.c_int32)(a["loopsmith_set_num_threads"])
        self._get_threads = ctypes.CFUNCTYPE(ctypes.c_int32)(a["loopsmith_get_num_threads"])
        self._last_error = ctypes.CFUNCTYPE(ctypes.c_char_p)(a["loopsmith_last_error"])
        self._set_error = ctypes.CFUNCTYPE(None, ctypes.c_char_p)(a["loopsmith_set_error"])
        self._use_matrix_unit = ctypes.CFUNCTYPE(ctypes.c_int32)(a["loopsmith_use_matrix_unit"])
        self._call_filled = ctypes.CFUNCTYPE(
            ctypes.c_int32, ctypes.c_int32, *[ctypes.c_void_p] * (1 + MOST_FILLED)
        )(self._code.address("loopsmith_call_filled"))
        self.parallel_for = ctypes.CFUNCTYPE(
            ctypes.c_int32, ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p
        )(a["loopsmith_parallel_for"])

    def set_num_threads(self, count: int) -> None:
        """Threads of parallel loops from the next one on, the caller included; 0 restores one per online cpu."""
        self._set_threads(count)

    def get_num_threads(self) -> int:
        """Threads that the next parallel loop uses."""
        return int(self._get_threads())

    def use_matrix_unit(self) -> bool:
        """Ask the system for the registers of an x86 processor's matrix unit; whether this process may use them."""
        return bool(self._use_matrix_unit())

    def call_filled(self, address: int, pointers: Sequence[int], byte: int) -> int:
        """Call a kernel that finds this byte in all scratch memory that it has not written; its status.

        Args:
            address: of a kernel whose parameters are all pointers, :data:`MOST_FILLED` at most.
        """
        rest = [None] * (MOST_FILLED - len(pointers))
        return int(self._call_filled(256 + byte, address, *pointers, *rest))

    def last_error(self) -> str:
        """Text of the last error of a kernel in this process, empty when there was none."""
        text = self._last_error()
        return text.decode("utf-8", "replace") if text else ""

    def set_error(self, message: str) -> None:
        """Stores the text that :meth:`last_error` returns, cut after 511 bytes."""
        self._set_error(message.encode("utf-8"))


_loading = Lock()
hold_at_fork(_loading.acquire, _loading.release)


def runtime() -> Runtime:
    """The process's runtime, compiled on first use, by one thread if several ask."""
    with _loading:
        return _load_runtime()


@lru_cache(maxsize=1)
def _load_runtime() -> Runtime:
    return Runtime()
