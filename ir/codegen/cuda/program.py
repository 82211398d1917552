"""``build`` for CUDA: kernels as source, as code for an architecture, and on the CPU for checks; devices run them in :mod:`runners`."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from ...error import IRTypeError, IRValueError
from ...module import IRModule
from ...target.target import Target
from ...tir.analysis.host_accesses import HOST_ACCESS, host_accesses
from ...tir.function import PrimFunc
from ...tir.kernel_launch import is_kernel
from ...tir.lower import lower
from ..error import CodegenError, what_it_is
from .cache import compile_cached
from .codegen import CudaSource, generate
from .emulation.program import EmulatedProgram
from .nvrtc import CompiledKernels
from .resources import KernelResources


@dataclass(frozen=True)
class CudaProgram:
    """A program that was built for CUDA: the host's functions, and the kernels that they launch."""

    module: IRModule
    """Lowered: host functions and kernels."""
    target: Target
    kernels: CudaSource

    def source(self, form: str = "cuda") -> str:
        """What was generated: ``"cuda"`` (C++) or ``"ptx"``.

        Raises:
            IRValueError: another form.
            CudaToolkitError: PTX is asked for, and there is no NVRTC.
        """
        if form == "cuda":
            return self.kernels.text
        if form == "ptx":
            return self.code.ptx
        raise IRValueError(f'a program for CUDA has the sources "cuda" and "ptx", not {form!r}')

    @cached_property
    def code(self) -> CompiledKernels:
        """The kernels for the target's architecture, compiled by NVRTC or kept from before.

        Raises:
            CudaToolkitError: there is no NVRTC, or it does not know the architecture.
            CudaCompileError: it refuses a kernel: too much shared memory, for instance.
        """
        return compile_cached(self.kernels.text, str(self.target.attrs["arch"]))

    @property
    def resources(self) -> dict[str, KernelResources]:
        """Registers, shared memory and spills of each kernel."""
        return self.code.resources

    @property
    def hosts(self) -> IRModule:
        """The functions that launch kernels."""
        functions = {var: func for var, func in self.module.functions.items() if not is_kernel(func)}
        return self.module.replace(functions=functions)

    def emulate(self) -> EmulatedProgram:
        """The program on the CPU, kernels compiled by the system's C++ compiler: what they compute can be seen without a GPU.

        Raises:
            EmulationError: there is no C++ compiler.
        """
        return EmulatedProgram(self.module, self.kernels)


def build_cuda(program: PrimFunc | IRModule, target: Target) -> CudaProgram:
    """Lower a program for a CUDA target and print its kernels.

    Args:
        program: a PrimFunc or a module of them, scheduled or lowered.
        target: of kind ``cuda``.

    Raises:
        IRTypeError: it is no program.
        CodegenError: nothing is bound to threads, or a kernel has no form in CUDA C++.
        IRValueError: a function cannot be lowered for this target.
    """
    if not isinstance(program, PrimFunc | IRModule):
        raise IRTypeError(f"build takes a PrimFunc or an IRModule, got {what_it_is(program)}")
    if isinstance(program, PrimFunc):
        symbol = str(program.attrs.get("global_symbol", "main"))
        program = IRModule({symbol: program.with_attr("global_symbol", symbol)})
    is_lowered = any(map(is_kernel, program.functions.values()))
    lowered = program if is_lowered else lower(program, target)
    if not any(map(is_kernel, lowered.functions.values())):
        for var, func in lowered.functions.items():
            if isinstance(func, PrimFunc) and (found := host_accesses(func)):
                raise CodegenError(HOST_ACCESS.format(function=var.name_hint, buffer=found[0].name))
    return CudaProgram(lowered, target, generate(lowered))
