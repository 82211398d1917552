"""Scheduled functions of a model lowered for CUDA one by one, on all processors, and kept by their structure."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

from ...error import IRError
from ...forked_map import forked_map
from ...module import IRModule
from ...pass_context import PassContext, code_settings
from ...structural import structural_hash
from ...target.target import Target
from ...tir.function import PrimFunc
from ...tir.kernel_launch import is_kernel
from ...tir.lower import lower
from ..llvm.symbols import unique_symbol

_CACHE: OrderedDict[tuple[int, str, str], IRModule] = OrderedDict()
_CACHE_SIZE = 512


def lowered_for_device(named: Sequence[tuple[str, PrimFunc]], target: Target) -> list[tuple[str, IRModule]]:
    """The symbol of each scheduled function, and its host function with the kernels that this launches; equal functions have one symbol.

    Args:
        named: functions with their names in the model, which their symbols and the names of their kernels begin with.
        target: of kind ``cuda``.

    Raises:
        IRError: a function cannot be lowered; the message names it.
    """
    settings = code_settings(PassContext.current())
    text = f"{target} {settings}"
    symbols: dict[int, str] = {}
    keys: list[tuple[int, str, str]] = []
    missing: dict[tuple[int, str, str], PrimFunc] = {}
    for name, func in named:
        bare = func.without_attr("global_symbol")
        number = structural_hash(bare)
        key = (number, text, symbols.setdefault(number, unique_symbol(name, number)))
        keys.append(key)
        if settings is None or key not in _CACHE:
            missing.setdefault(key, bare.with_attr("global_symbol", key[2]))

    def lowered(item: tuple[tuple[int, str, str], PrimFunc]) -> IRModule:
        (_, _, name), func = item
        try:
            return lower(IRModule({name: func}), target)
        except IRError as error:
            error.add_note(f"in function {name}")
            raise

    made = forked_map(lowered, list(missing.items()), named=lambda item: f"function {item[0][2]}")
    fresh = dict(zip(missing, made, strict=True))
    found = [(key[2], fresh[key] if key in fresh else _CACHE[key]) for key in keys]
    if settings is not None:
        _keep(dict(zip(keys, (module for _, module in found), strict=True)))
    return found


def _keep(used: dict[tuple[int, str, str], IRModule]) -> None:
    for key, module in used.items():
        _CACHE[key] = module
        _CACHE.move_to_end(key)
    while len(_CACHE) > _CACHE_SIZE:
        _CACHE.popitem(last=False)


def host_of(lowered: IRModule) -> PrimFunc:
    """The function that launches the kernels of a lowered module of one function."""
    (host,) = [
        func for func in lowered.functions.values() if isinstance(func, PrimFunc) and not is_kernel(func)
    ]
    return host
