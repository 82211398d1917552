"""``ir.build`` and ``ir.compile``: one entry for kernels and for whole models."""

from __future__ import annotations

from typing import Any

from .codegen.build import build as build_kernels
from .codegen.cuda.program import build_cuda
from .error import IRTypeError
from .module import IRModule
from .relax.vm_build import build as build_model
from .target.target import Target
from .tir.function import PrimFunc


def compile_module(mod: IRModule | PrimFunc, target: Any = None, **options: Any) -> Any:
    """Compile a PrimFunc or a module.

    Args:
        mod: a module with Relax functions becomes a :class:`runners.executable.Executable` (see :func:`ir.relax.build`), one
            of PrimFuncs alone, or a single PrimFunc, a :class:`ir.codegen.build.NativeModule`, and for a target of kind ``cuda`` a
            :class:`ir.codegen.cuda.program.CudaProgram`.
        target: a target or its text; the one in force, or the host, when None.
        options: keyword arguments of the function that does it.
    """
    if isinstance(mod, IRModule) and any(not isinstance(func, PrimFunc) for func in mod.functions.values()):
        return build_model(mod, target, **options)
    chosen = Target.current(allow_none=True) if target is None else target
    if chosen is not None and not isinstance(chosen, Target):
        chosen = Target(chosen)
    if chosen is not None and chosen.kind_name == "cuda":
        if options:
            raise IRTypeError(f"ir.build for {chosen.kind_name} takes no option {sorted(options)[0]!r}")
        return build_cuda(mod, chosen)
    return build_kernels(mod, chosen, **options)
