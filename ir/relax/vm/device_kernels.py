"""Compiling the kernels of a model for a CUDA device: one program of CUDA C++ for all, and native host functions that launch them.

Host functions take a queue before their arguments (:mod:`ir.codegen.cuda.queue`); what else runs on the processor, as the functions that
compute shapes, is compiled as for a model of the processor.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ...codegen.build import NativeModule
from ...codegen.build import build as build_kernel
from ...codegen.cuda.cache import compile_cached
from ...codegen.cuda.codegen import CudaSource, generate
from ...codegen.cuda.lowered import lowered_for_device
from ...codegen.cuda.queue import LaunchThroughQueue
from ...error import IRError
from ...expr import GlobalVar
from ...module import IRModule
from ...target.target import Target
from ...tir.analysis.packed_functions import packed_functions
from ...tir.expr import IntImm
from ...tir.kernel_launch import is_kernel
from .kernels import CompiledKernels, compile_kernels


@dataclass
class DeviceKernels(CompiledKernels):
    """Host code by kernel, and the program for the device.

    Attributes:
        launching: symbols of the functions that take a queue.
        device: what runs on the device, as plain data of :class:`runners.device_code.DeviceCode`.
    """

    launching: frozenset[str] = frozenset()
    device: dict[str, Any] | None = None

    def launches(self, var: GlobalVar) -> bool:
        """Whether a PrimFunc launches kernels of a device, and takes a queue for it."""
        return self.symbol_of(var) in self.launching


def runs_on_host(func: Any) -> bool:
    """Whether a PrimFunc of a model for a device is the host's: it computes numbers, as extents are."""
    return bool(func.attrs.get("tir.is_host_func"))


def compile_device_kernels(mod: IRModule, used: Sequence[GlobalVar], target: Target) -> DeviceKernels:
    """Compile the PrimFuncs ``used`` of a module for a CUDA target.

    Raises:
        CodegenError: a function has no threads, or no form in CUDA C++.
        CudaToolkitError: there is no NVRTC.
        CudaCompileError: a kernel is too large for the architecture.
    """
    host_target = target.host if target.host is not None else Target("llvm")
    on_host = [var for var in used if runs_on_host(mod[var])]
    result = DeviceKernels(**vars(compile_kernels(mod, on_host, host_target)))
    named: list[tuple[str, Any]] = [(var.name_hint, mod[var]) for var in used if not runs_on_host(mod[var])]
    for name, func in named:
        if called := packed_functions(func):
            raise IRError(
                f"kernel {name} calls the Python function {called[0]!r}, which a device cannot; take the call out of the kernel:"
                " R.call_packed calls what the process registers"
            )
    if not named:
        return result
    lowered = lowered_for_device(named, target)
    result.symbols.update({name: symbol for (name, _), (symbol, _) in zip(named, lowered, strict=True)})
    program = IRModule()
    for module in dict(lowered).values():
        program.update(module)
    launching = LaunchThroughQueue()(program)
    source = generate(program)
    hosts = {var: func for var, func in launching.functions.items() if not is_kernel(func)}
    code: NativeModule = build_kernel(launching.replace(functions=hosts), host_target, unroll=False)
    result.modules["device"] = code
    result.launching = frozenset(code.signatures)
    result.device = _device_code(source, str(target.attrs["arch"]))
    return result


def _device_code(source: CudaSource, arch: str) -> dict[str, Any]:
    compiled = compile_cached(source.text, arch)
    kernels = []
    for name, launch in source.launches.items():
        shared = launch.dynamic_bytes
        known = 0 if shared is None else shared.value if isinstance(shared, IntImm) else None
        kernels.append({"name": name, "dynamic_shared_bytes": known})
    return {
        "arch": arch,
        "kernels": kernels,
        "source": source.text,
        "ptx": compiled.ptx,
        "cubin": compiled.cubin,
    }
