"""Weights that an importer left on its functions as the attribute ``params``, taken off again."""

from __future__ import annotations

from typing import Any

from ir.error import IRTypeError
from ir.module import IRModule
from ir.relax.function import Function


def detach_params(mod: IRModule) -> tuple[IRModule, dict[str, list[Any]]]:
    """Take the attribute ``params`` off the functions of a module.

    Args:
        mod: a module whose functions may carry ``params``, a list of arrays.

    Returns:
        The module without the attribute.
        The arrays by the name of the function that carried them.

    Raises:
        IRTypeError: a function's ``params`` is not a list of arrays.
    """
    detached = mod.clone()
    params: dict[str, list[Any]] = {}
    for var, func in mod.functions.items():
        if not isinstance(func, Function) or "params" not in func.attrs:
            continue
        values = func.attrs["params"]
        if not isinstance(values, list | tuple) or not all(hasattr(value, "shape") for value in values):
            raise IRTypeError(f"the attribute 'params' of function {var.name_hint!r} is not a list of arrays")
        params[var.name_hint] = list(values)
        detached[var] = func.without_attr("params")
    return detached, params
