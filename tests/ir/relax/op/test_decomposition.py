"""Decompositions compute the same, and share no more memory than the operator declares."""

from __future__ import annotations

import numpy as np
import pytest

from ir import relax as rx
from ir.relax.op import OPERATORS
from ir.relax.testing import evaluate

from .calls import flat, origins, params_of
from .cases import CASES, Case


@pytest.mark.parametrize("mode", ["inference", "training"])
@pytest.mark.parametrize("item", [item for item in CASES if OPERATORS[item.op].decomposition], ids=str)
def test_decomposition(item: Case, mode: str) -> None:
    rule = getattr(OPERATORS[item.op].decomposition, mode)
    if rule is None:
        return
    params, _ = params_of(item, False)
    bb = rx.BlockBuilder()
    with bb.function("main", params):
        call = bb.normalize(item.build(*params))
        told = {"training": mode == "training"} if "training" in call.attrs else {}
        decomposed = rx.Call(call.op, call.args, {**call.attrs.dict, **told})
        made = bb.normalize(rule(call))
        bb.emit_func_output(bb.emit(made))
    func = bb.finalize()["main"]
    other = rx.BlockBuilder()
    with other.function("main", params):
        other.emit_func_output(other.emit(decomposed))
    before = other.finalize()["main"]
    assert func.ret_struct_info == before.ret_struct_info
    for got, want in zip(
        flat(evaluate(func, *item.inputs)), flat(evaluate(before, *item.inputs)), strict=True
    ):
        np.testing.assert_allclose(got, want, rtol=item.tolerance, atol=item.tolerance)
    for lowered, declared in zip(origins(func), origins(before), strict=True):
        assert lowered <= declared
