"""detach_params on functions with and without the attribute."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ir import IRModule, IRTypeError
from ir.relax import BlockBuilder, TensorStructInfo, Var
from ir.relax.frontend import detach_params


def module_with(**params: Any) -> IRModule:
    """A module with one function for each name, which carries the given params (None: none)."""
    builder = BlockBuilder()
    for name in params:
        x = Var("x", TensorStructInfo((2,), "float32"))
        with builder.function(name, [x]):
            builder.emit_func_output(x)
    mod = builder.finalize()
    for name, value in params.items():
        if value is not None:
            mod[name] = mod[name].with_attr("params", value)  # type: ignore[attr-defined]
    return mod


def test_only_functions_with_params_are_detached() -> None:
    arrays = [np.ones(2, np.float32), np.zeros(3, np.float32)]
    mod = module_with(first=arrays, second=None)
    detached, params = detach_params(mod)
    assert list(params) == ["first"]
    assert all(got is given for got, given in zip(params["first"], arrays, strict=True))
    assert "params" not in detached["first"].attrs and "params" in mod["first"].attrs
    assert detached["second"] is mod["second"]


def test_params_must_be_arrays() -> None:
    with pytest.raises(IRTypeError, match="'params' of function 'first' is not a list of arrays"):
        detach_params(module_with(first="weights.bin"))
