"""What was uploaded, opened: models, whose functions a virtual machine calls, and kernels."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from ir.codegen.build import NativeModule
from ir.codegen.container import MAGIC, unpack
from ir.codegen.llvm.runtime import runtime
from ir.codegen.native_code import KIND, packed_native, unpacked_native

from ..benchmark import BenchmarkResult, Repeats
from ..device import Device
from ..error import RunnerError
from ..executable import Executable
from ..interpreter import packed_function
from ..native import NativeKernel
from ..ndarray import NDArray

MODEL, KERNELS = "model", "kernels"
"""Kinds of programs."""


def program_bytes(module: Any) -> bytes:
    """A module of kernels as bytes that :func:`opened` reads.

    Args:
        module: what ``ir.build`` made for a processor, or ``runners.cuda.build_module``.

    Raises:
        CodegenError: its code calls Python functions.
        RunnerError: it is something else.
    """
    if isinstance(module, NativeModule):
        return packed_native(module)
    if type(module).__name__ == "CudaModule":
        packed: bytes = import_module("..cuda.module_code", __package__).packed_cuda(module)
        return packed
    raise RunnerError(
        "what is sent is a module of kernels (of ir.build or runners.cuda.build_module), bytes, or a library by its path; got a"
        f" {type(module).__name__}"
    )


def opened(path: Path) -> Executable | KernelModule:
    """The program in a file: a library that ``export_library`` of a model wrote, or kernels as bytes.

    Raises:
        ExecutableError: it is no library of a model.
        ContainerError: what begins like kernels is none.
    """
    with path.open("rb") as file:
        if file.read(len(MAGIC) - 1) != MAGIC[:-1]:
            return Executable.load(path)
    data = path.read_bytes()
    described, _ = unpack(data)
    if described.get("kind") == KIND:
        return KernelModule(unpacked_native(data))
    return KernelModule(import_module("..cuda.module_code", __package__).unpacked_cuda(data))


def described(program: Executable | KernelModule) -> dict[str, Any]:
    """What a program is and which functions it has, as plain data: for each its parameters, and the names of those that it overwrites."""
    if isinstance(program, KernelModule):
        return program.described()
    functions = {}
    for name, entry in program.metadata["functions"].items():
        specs = [*entry.get("inputs", ()), *entry["params"]]
        written = {str(spec["name"]) for spec in specs if spec.get("written")}
        functions[name] = {
            "params": entry["params"],
            "outputs": entry.get("outputs"),
            "public": entry.get("public", True),
            "written": sorted(written),
        }
    return {"kind": MODEL, "device": program.metadata.get("device", "cpu"), "functions": functions}


class KernelModule:
    """Kernels that are called by their names, ``module["main"](a, b, c)``, and write into their arguments.

    Args:
        module: of native code, or of CUDA kernels with the functions that launch them.
    """

    def __init__(self, module: Any) -> None:
        self._module = module

    def __getitem__(self, name: str) -> Callable[..., Any]:
        """The kernel of this name; raises KernelError listing what there is."""
        function = self._module[name]
        return lambda *args: function(*self._given(args))

    def __call__(self, *args: Any) -> Any:
        """Call the kernel of a module that has one."""
        return self._module(*self._given(args))

    def __contains__(self, name: object) -> bool:
        return name in self._module

    def functions(self) -> list[str]:
        """Names of the kernels."""
        names: list[str] = self._module.functions()
        return names

    def _given(self, args: Sequence[Any]) -> list[Any]:
        """Arrays of the processor as numpy's, which say whether they may be written."""
        return [value.data if _is_of_processor(value) else value for value in args]

    def described(self) -> dict[str, Any]:
        """As :func:`described` gives it."""
        is_native = isinstance(self._module, NativeModule)
        signatures = (self._module if is_native else self._module.host).signatures
        functions = {}
        for name, signature in signatures.items():
            given = [item for item in signature.parameters if item.kind in ("buffer", "scalar")]
            functions[name] = {
                "params": [{"name": item.name, "dtype": item.dtype} for item in given],
                "written": [item.name for item in given if item.stored],
                "public": True,
            }
        return {"kind": KERNELS, "device": "cpu" if is_native else "cuda", "functions": functions}

    def time_evaluator(
        self,
        func_name: str,
        dev: Device | None = None,
        number: int = 10,
        repeat: int = 1,
        min_repeat_ms: int = 0,
        cooldown_interval_ms: int = 0,
        repeats_to_cooldown: int = 1,
    ) -> Callable[..., BenchmarkResult]:
        """A function that calls a kernel on its arguments again and again and gives the times, as
        :meth:`runners.VirtualMachine.time_evaluator` does; ``dev`` is where the arguments are."""
        function = self._module[func_name]
        repeats = Repeats(number, repeat, min_repeat_ms, cooldown_interval_ms, repeats_to_cooldown)

        def evaluate(*args: Any) -> BenchmarkResult:
            given = self._given(args)
            function(*given)  # an argument that does not fit shows here
            if not isinstance(self._module, NativeModule):
                return repeats.times(function.bind(*given).time_calls)
            only_arrays = all(isinstance(value, np.ndarray) for value in given)
            call = (
                NativeKernel(self._module, func_name, runtime().get_num_threads()).bind(*given)
                if only_arrays
                else None
            )
            return repeats.times(_timer(call or (lambda: function(*given))))

        return evaluate

    def profile(self, func_name: str, *args: Any) -> str:
        """Refused: a kernel has no parts.

        Raises:
            RunnerError: always.
        """
        raise RunnerError(f"{func_name} is a kernel; a profile is of a model's function: use time_evaluator")


class RegisteredFunctions:
    """The Python functions that a server's processes register (``ir.register_func``)."""

    def __getitem__(self, name: str) -> Callable[..., Any]:
        """The function of this name; raises RunnerError where there is none."""
        try:
            return packed_function(name)
        except RunnerError:
            raise RunnerError(f"the server registers no function {name!r}") from None


def _is_of_processor(value: Any) -> bool:
    return isinstance(value, NDArray) and value.device.device_type == Device.kDLCPU


def _timer(call: Callable[[], object]) -> Callable[[int], float]:
    clock = time.perf_counter

    def run(count: int) -> float:
        begin = clock()
        for _ in range(count):
            call()
        return clock() - begin

    return run
