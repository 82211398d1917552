"""``ir.build`` and ``ir.compile``: one entry for kernels and for whole models."""

from __future__ import annotations

from typing import Any

from .codegen.build import build as build_kernels
from .module import IRModule
from .relax.vm_build import build as build_model
from .tir.function import PrimFunc


def compile_module(mod: IRModule | PrimFunc, target: Any = None, **options: Any) -> Any:
    """Compile a PrimFunc or a module.

    Args:
        mod: a module with Relax functions becomes a :class:`runners.executable.Executable` (see :func:`ir.relax.build`), one
            of PrimFuncs alone, or a single PrimFunc, a :class:`ir.codegen.build.NativeModule`.
        target: a target or its text; the host when None.
        options: keyword arguments of the function that does it.
    """
    if isinstance(mod, IRModule) and any(not isinstance(func, PrimFunc) for func in mod.functions.values()):
        return build_model(mod, target, **options)
    return build_kernels(mod, target, **options)
