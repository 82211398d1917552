"""The default way to build a candidate: the compiler's native code, called on numpy arrays at little cost."""

from __future__ import annotations

import ctypes
import importlib
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any, ClassVar

from ir.arith.pattern import compile_all_rules
from ir.codegen.build import NativeFunction, build
from ir.codegen.llvm.runtime import MOST_FILLED, runtime
from ir.codegen.native_code import packed_native, unpacked_native
from ir.target import Target

from .error import RunnerError


class NativeKernel:
    """One kernel of a native module; ``bind`` makes calls on fixed arrays, whose arguments are checked once."""

    KIND: ClassVar[str] = "native"

    def __init__(self, module: Any, name: str, threads: int) -> None:
        self._module = module
        self._name = name
        self._threads = threads

    @cached_property
    def _function(self) -> NativeFunction:
        found: NativeFunction = self._module[self._name]
        return found

    def load(self) -> None:
        """Load the code into this process.

        Raises:
            CodegenError: it is for another processor, or needs what this process does not have.
        """
        _ = self._function

    @property
    def metrics(self) -> dict[str, float]:
        """``code_size``: bytes of machine code; ``memory``: bytes of scratch memory that exist at a time in a call."""
        found = {"code_size": self._module.code_bytes, "memory": self._module.scratch_bytes}
        return {name: float(value) for name, value in found.items() if value is not None}

    def __reduce__(self) -> Any:
        """Its code travels to another process, and is loaded there."""
        return NativeKernel, (self._module, self._name, self._threads)

    def packed(self) -> tuple[str, dict[str, Any], bytes]:
        """Its kind, what :meth:`unpacked` needs to know beside the code, and the code, for :mod:`runners.kernel_code`.

        Raises:
            CodegenError: it calls Python functions.
        """
        return self.KIND, {"name": self._name, "threads": self._threads}, packed_native(self._module)

    @staticmethod
    def unpacked(described: Mapping[str, Any], code: bytes) -> NativeKernel:
        """The kernel that :meth:`packed` described."""
        return NativeKernel(unpacked_native(code), str(described["name"]), int(described["threads"]))

    def with_threads(self, count: int) -> NativeKernel:
        """The same code, its parallel loops shared by so many threads."""
        return NativeKernel(self._module, self._name, count)

    def call_filled(self, byte: int, *arrays: Any) -> None:
        """A call that finds this byte in scratch memory that it has not written."""
        pointers, _ = self._function.prepare(arrays)
        if len(pointers) > MOST_FILLED:
            self(*arrays)
            return
        self._use_threads()
        with self._module.calling():
            status = runtime().call_filled(self._function.address, pointers, byte)
            if status:
                self._module.raise_error(self._name, status)

    def __call__(self, *arrays: Any) -> None:
        self._use_threads()
        self._function(*arrays)

    def bind(self, *arrays: Any) -> Callable[[], None]:
        """A call on these arrays without any checks left in it."""
        self._use_threads()
        arguments, _ = self._function.prepare(arrays)
        module, name = self._module, self._name
        call = ctypes.CFUNCTYPE(ctypes.c_int32, *[ctypes.c_void_p] * len(arguments))(self._function.address)
        pointers = tuple(ctypes.c_void_p(address) for address in arguments)

        def run(_kept: Any = arrays) -> None:
            status = call(*pointers)
            if status:
                module.raise_error(name, status)

        def run_with_python() -> None:
            with module.calling():
                run()

        return run_with_python if module.packed_sites else run

    def _use_threads(self) -> None:
        runtime().set_num_threads(self._threads)


def build_native(mod: Any, target: Any, *, unroll: bool = True) -> NativeKernel:
    """Build a module of one kernel for a CPU target; compiling is faster without unrolling scalar loops.

    Raises:
        RunnerError: the module has several kernels and none is called main.
        ir.error.IRError: it cannot be built.
    """
    resolved = target if isinstance(target, Target) else Target(target)
    module = build(mod, resolved, unroll=unroll)
    names = module.functions()
    if len(names) != 1 and "main" not in names:
        raise RunnerError(
            f"a candidate has one kernel, or one called 'main'; this module has {sorted(names)}"
        )
    return NativeKernel(module, names[0] if len(names) == 1 else "main", resolved.num_cores)


def build_reference(mod: Any, target: Any) -> NativeKernel:
    """Build an unscheduled program that runs twice: what LLVM's unrolling gains it does not pay for."""
    return build_native(mod, target, unroll=False)


def warm() -> None:
    """Load the runtime of native code, and do what is done on first use: compile the simplifier's rules, initialize LLVM, import what
    checks need."""
    Target("cpu")
    runtime()
    compile_all_rules()
    for name in ("numpy.random", "ml_dtypes"):
        importlib.import_module(name)
