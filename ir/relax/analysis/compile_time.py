"""What of a function is known before the program runs: the weights and whatever depends on them alone."""

from __future__ import annotations

from typing import Any

from ...module import IRModule
from ..expr import Call, If, Var
from ..function import Function
from ..symbolic_vars import definable_tir_vars_in_struct_info, tir_vars_in
from .binding import used_vars
from .memory import Aliases, MemoryAnalysis
from .purity import contains_impure_call


def computable_at_compile_time(func: Function, mod: IRModule | None = None) -> list[Var]:
    """The variables known before the program runs: parameters past ``num_input`` (weights) and what depends on them alone.

    They come in order of their definition. What a call makes that is another object each time, and memory that the function
    writes, belongs to the run; so does what mentions extents that the weights' shapes do not tell. A function without the attribute
    ``num_input`` has none.

    Args:
        func: the function.
        mod: the module that it belongs to, which tells what called functions do.
    """
    if "num_input" not in func.attrs:
        return []
    weights = func.params[func.attrs.get_int("num_input") :]
    known: dict[Var, None] = dict.fromkeys(weights)
    symbols = {symbol for item in weights for symbol in definable_tir_vars_in_struct_info(item.struct_info)}
    memory = MemoryAnalysis(mod)
    aliases = memory.aliases(func)
    for block in func.body.blocks:
        for binding in block.bindings:
            value: Any = binding.value  # type: ignore[attr-defined]
            mentioned = {*tir_vars_in(value), *tir_vars_in(binding.var.struct_info)}
            if (
                all(var in known for var in used_vars(value))
                and mentioned <= symbols
                and _is_the_same_each_time(value, memory, aliases)
                and not aliases.is_written(binding.var)
            ):
                known[binding.var] = None
    return list(known)


def _is_the_same_each_time(value: Any, memory: MemoryAnalysis, aliases: Aliases) -> bool:
    """Whether computing a value once is as good as computing it in every run."""
    if isinstance(value, Call):
        return memory.is_repeatable(value) and not aliases.is_written(*value.args)
    return not isinstance(value, If | Function) and not contains_impure_call(value)
