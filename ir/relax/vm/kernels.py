"""Compiling the kernels of a model: equal PrimFuncs once, the others on all processors.

Kernels are compiled one by one into object files that are kept by structural hash, so that a model that is built again (during
tuning, or with one kernel changed) pays for the new ones only.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from ...codegen.build import NativeModule
from ...codegen.build import build as build_kernel
from ...codegen.llvm.symbols import unique_symbol
from ...expr import GlobalVar
from ...forked_map import forked_map
from ...module import IRModule
from ...pass_context import PassContext, code_settings
from ...structural import structural_hash
from ...tir.function import PrimFunc

_CACHE: OrderedDict[tuple[int, str, str], NativeModule] = OrderedDict()
_CACHE_SIZE = 512


@dataclass
class CompiledKernels:
    """Object files by kernel.

    Attributes:
        modules: one per distinct kernel, by symbol.
        symbols: the symbol of each PrimFunc.
    """

    modules: dict[str, NativeModule] = field(default_factory=dict)
    symbols: dict[str, str] = field(default_factory=dict)

    def symbol_of(self, var: GlobalVar) -> str:
        """The symbol of a PrimFunc of the module."""
        return self.symbols[var.name_hint]

    def launches(self, var: GlobalVar) -> bool:
        """Whether a PrimFunc launches kernels of a device, and takes a queue for it."""
        return False

    @property
    def objects(self) -> list[bytes]:
        """The object files that are linked; not those of :attr:`with_python`."""
        return [module.code for module in self.modules.values() if not module.packed_sites]

    @property
    def features(self) -> set[str]:
        """Features of the processor that they use beside those that all code for it does."""
        return {feature for module in self.modules.values() for feature in module.features}

    @property
    def with_python(self) -> list[NativeModule]:
        """Kernels that call registered Python functions: each is loaded by itself, with a pointer to what calls Python."""
        return [module for module in self.modules.values() if module.packed_sites]

    @property
    def python_functions(self) -> list[str]:
        """The Python functions that kernels call."""
        return sorted({site.function for module in self.with_python for site in module.packed_sites})


def compile_kernels(mod: IRModule, used: Sequence[GlobalVar], target: Any) -> CompiledKernels:
    """Compile the PrimFuncs ``used`` of a module for a target.

    Raises:
        CodegenError: a kernel has no native form.
    """
    result = CompiledKernels()
    missing: list[tuple[tuple[int, str, str], str, PrimFunc]] = []
    settings = code_settings(PassContext.current())
    text = f"{target} {settings}"
    symbols: dict[int, str] = {}
    for var in used:
        func = mod[var]
        bare = func.without_attr("global_symbol")
        key = structural_hash(bare)
        symbol = symbols.setdefault(key, unique_symbol(var.name_hint, key))
        entry = (key, text, symbol)
        result.symbols[var.name_hint] = symbol
        if symbol in result.modules:
            continue
        found = _CACHE.get(entry) if settings is not None else None
        if found is not None:
            _CACHE.move_to_end(entry)
            result.modules[symbol] = found
        elif all(item[1] != symbol for item in missing):
            missing.append((entry, symbol, bare.with_attr("global_symbol", symbol)))
    compiled = forked_map(
        lambda item: build_kernel(item[2], target), missing, named=lambda item: f"kernel {item[1]}"
    )
    for (entry, symbol, _), module in zip(missing, compiled, strict=True):
        result.modules[symbol] = module
        if settings is None:
            continue
        _CACHE[entry] = module
        while len(_CACHE) > _CACHE_SIZE:
            _CACHE.popitem(last=False)
    return result
