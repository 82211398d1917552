"""How a case is called: as a function with static or symbolic shapes, evaluated, and what is known of its results."""

from __future__ import annotations

from typing import Any

import numpy as np

import ir
from ir import relax as rx
from ir import tir
from ir.relax.analysis.memory import MemoryAnalysis
from ir.relax.op import OPERATORS
from ir.relax.testing import evaluate

from .cases import Case


def params_of(item: Case, symbolic: bool) -> tuple[list[rx.Var], dict[str, int]]:
    names: dict[str, tir.Var] = {}
    values: dict[str, int] = {}
    params = []
    for number, array in enumerate(item.inputs):
        dims: list[Any] = list(array.shape)
        for axis in range(array.ndim):
            name = item.symbolic.get((number, axis)) if symbolic else None
            if name:
                dims[axis] = names.setdefault(name, tir.Var(name, "int64"))
                values[name] = array.shape[axis]
        params.append(rx.Var(f"x{number}", rx.TensorStructInfo(dims, ir.dtype.from_numpy(array.dtype))))
    return params, values


def build(item: Case, params: list[rx.Var], legal: bool) -> ir.IRModule:
    bb = rx.BlockBuilder()
    with bb.function("main", params):
        value = bb.normalize(item.build(*params))
        if legal:
            legalize = value.op.get_attr("FLegalize")
            value = legalize(bb, value)
        bb.emit_func_output(bb.emit(value))
    return bb.finalize()


def reference(item: Case, params: list[rx.Var]) -> Any:
    return evaluate(build(item, params, False), *item.inputs)


def flat(value: Any) -> list[np.ndarray]:
    return [np.asarray(part) for part in value] if isinstance(value, list | tuple) else [np.asarray(value)]


def check_info(info: Any, expected: Any, values: dict[str, int], known: bool) -> None:
    infos = info.fields if isinstance(info, rx.TupleStructInfo) else [info]
    arrays = flat(expected)
    assert len(infos) == len(arrays)
    for one, array in zip(infos, arrays, strict=True):
        assert isinstance(one, rx.TensorStructInfo)
        assert one.ndim in (array.ndim, -1)
        if not known:
            continue
        assert one.shape_values is not None, one
        sizes = []
        for dim in one.shape_values:
            table = {v: tir.const(values[v.name], "int64") for v in rx.analysis.tir_vars_in_struct_info(one)}
            sizes.append(int(ir.arith.Analyzer().simplify(tir.substitute(dim, table)).value))
        assert tuple(sizes) == array.shape


def origins(func: rx.Function) -> list[set[tuple[int, tuple[int, ...]]]]:
    """For each field of a function's result, the parameters that it may be memory of, by number and path."""
    place = MemoryAnalysis().aliases(func).result
    numbers = {param: number for number, param in enumerate(func.params)}
    fields = place if isinstance(place, tuple) else (place,)
    return [{(numbers[root.owner], root.path) for root in field if root.owner in numbers} for field in fields]


DATA_DEPENDENT = {name for name, declaration in OPERATORS.items() if declaration.data_dependent}
