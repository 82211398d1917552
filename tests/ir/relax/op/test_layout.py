"""Layout rules: a call on permuted operands, as its rule plans it, gives the permuted result."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ir
from ir import relax as rx
from ir.relax.op import OPERATORS
from ir.relax.op.layout_rule import identity, ndim_of
from ir.relax.testing import evaluate

from .calls import flat, params_of, reference
from .cases import CASES, Case


def _planned(item: Case, params: list[rx.Var]) -> tuple[Any, list[Any], rx.Call] | None:
    """The plan for operands whose axes are rotated, with the layouts of the arguments and the normalized call."""
    declaration = OPERATORS[item.op]
    bb = rx.BlockBuilder()
    with bb.testing_scope([]):
        call = bb.normalize(item.build(*params))
    ndim = max((array.ndim for array in item.inputs), default=0)

    def layout(arg: Any) -> Any:
        if isinstance(arg, rx.Tuple):
            return tuple(layout(field) for field in arg.fields)
        plain = identity(max(ndim_of(arg), 0))
        return (
            (*plain[1:], plain[0])
            if len(plain) == ndim > 1 and declaration.preferred_layouts is None
            else plain
        )

    layouts = [layout(arg) for arg in call.args]
    plan = declaration.layout(call, layouts, declaration.preferred_layouts)
    return None if plan is None else (plan, layouts, call)


LAID_OUT = [item for item in CASES if OPERATORS[item.op].layout is not None]


def _stored(array: np.ndarray, wanted: Any, have: Any) -> np.ndarray:
    """The operand that a plan asks for, of an array with its original axes."""
    if wanted is None:
        return array.transpose(have)
    if len(wanted) == array.ndim:
        return array.transpose(wanted)
    missing = len(wanted) - array.ndim
    return array.reshape((1,) * missing + array.shape).transpose(wanted)


@pytest.mark.parametrize("item", LAID_OUT, ids=str)
def test_layout(item: Case) -> None:
    params, _ = params_of(item, False)
    expected = reference(item, params)
    found = _planned(item, params)
    if found is None:
        return
    plan, layouts, call = found
    arrays = dict(zip(params, item.inputs, strict=True))
    values: list[np.ndarray] = []
    new_params: list[rx.Var] = []

    def operand(arg: Any, wanted: Any, have: Any) -> Any:
        if isinstance(arg, rx.Tuple):
            return rx.Tuple([operand(*parts) for parts in zip(arg.fields, wanted, have, strict=True)])
        array = arrays.get(arg, arg.data if isinstance(arg, rx.Constant) else None)
        if array is None:
            return arg
        moved = np.ascontiguousarray(_stored(array, wanted, have))
        values.append(moved)
        info = rx.TensorStructInfo(moved.shape, ir.dtype.from_numpy(moved.dtype))
        new_params.append(rx.Var(f"p{len(values)}", info))
        return new_params[-1]

    args = [operand(*parts) for parts in zip(call.args, plan.operands, layouts, strict=True)]
    moved = rx.Call(call.op, args, {**call.attrs.dict, **(plan.attrs or {})}, call.sinfo_args)
    bb = rx.BlockBuilder()
    with bb.function("main", new_params):
        bb.emit_func_output(bb.emit(moved))
    got = flat(evaluate(bb.finalize(), *values))
    layouts_of_results = [plan.results] if len(got) == 1 else list(plan.results)
    for one, want, layout in zip(got, flat(expected), layouts_of_results, strict=True):
        np.testing.assert_allclose(one, want.transpose(layout), rtol=item.tolerance, atol=item.tolerance)


def test_every_layout_rule_is_tested() -> None:
    tested = {item.op for item in LAID_OUT if _planned(item, params_of(item, False)[0])}
    assert tested == {name for name, declaration in OPERATORS.items() if declaration.layout is not None}
