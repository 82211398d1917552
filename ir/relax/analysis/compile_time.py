"""What of a function is known before the program runs: the weights and whatever depends on them alone."""

from __future__ import annotations

from ..expr import Var
from ..function import Function
from .binding import used_vars
from .purity import contains_impure_call


def computable_at_compile_time(func: Function) -> list[Var]:
    """The variables known before the program runs: parameters past ``num_input`` (weights) and what depends on them alone.

    They come in order of their definition.

    A function without the attribute ``num_input`` has none.
    """
    if "num_input" not in func.attrs:
        return []
    num_input = func.attrs.get_int("num_input")
    known: dict[Var, None] = dict.fromkeys(func.params[num_input:])
    for block in func.body.blocks:
        for binding in block.bindings:
            uses = used_vars(binding.value)
            if all(var in known for var in uses) and not contains_impure_call(binding.value):
                known[binding.var] = None
    return list(known)
