"""Vectors of narrow floats that are stored, two lanes at a time: numbers are rounded two at once, and float16 and bfloat16 computed so.

What is stored is rounded to its dtype anyway; operations of the dtype are rounded one by one then, which the program's
meaning leaves open ([half-carry]), products and sums together, once, where programs may be contracted.
"""

from __future__ import annotations

from typing import Any

from ... import dtype as dt
from ...target.target import Target
from ...tir import expr as E
from ...tir import stmt as S
from ...tir.expr import PrimExpr
from .emitter import KernelEmitter, Lanes
from .memory import held, is_one_piece, loaded, loaded_pairs, store_joined, store_lanes, stored
from .pair_forms import PairForms, pair_forms
from .text import Text, call
from .types import HALVES

_SUMS: dict[type, str] = {E.Add: "__hadd2_rn", E.Sub: "__hsub2_rn", E.Mul: "__hmul2_rn"}
"""Which NVRTC does not contract."""
_EXTREMES: dict[type, str] = {E.Max: "__hmax2_nan", E.Min: "__hmin2_nan"}
_MARKS = ("tir.in_order", "tir.as_data", "tir.optimization_barrier")


def operations_in_pairs(target: Target) -> dict[str, dict[type, str]]:
    """By the dtypes that a target computes with in pairs: the functions of operations."""
    extremes = _EXTREMES if target.has_half_extremes else {}
    return {dtype: {**_SUMS, **extremes} for dtype in HALVES if target.computes_with(dtype)}


def store_in_pairs(emitter: KernelEmitter, node: S.BufferStore) -> bool:
    """Prints the store of a vector of narrow floats that are computed or rounded; False, and nothing is printed, for other stores."""
    forms = pair_forms(node.value.dtype)
    index = node.indices[0] if len(node.indices) == 1 else None
    if forms is None or node.predicate is not None or emitter.in_order or not isinstance(index, E.Ramp):
        return False
    is_piece = is_one_piece(emitter, node.buffer, index)
    if not _computes(emitter, node.value) and not (is_piece and _rounds(node.value)):
        return False
    for function in forms.functions:
        emitter.use(function)
    values = _pairs(emitter, forms, node.value)
    if is_piece:
        store_joined(emitter, node.buffer, index, values)
        return True
    named = [_named(emitter, forms, value) for value in values]
    halves = [call(function, pair) for pair in named for function in (forms.low, forms.high)]
    store_lanes(emitter, node.buffer, index, halves)
    return True


def _computes(emitter: KernelEmitter, value: PrimExpr) -> bool:
    """Whether a value is computed by an instruction for two numbers of its dtype."""
    if _is_mark(value):
        return _computes(emitter, value.args[0])  # type: ignore[attr-defined]
    return value.__class__ in emitter.in_pairs.get(dt.element_of(value.dtype), ())


def _rounds(value: PrimExpr) -> bool:
    """Whether a value is rounded when it is stored, in contrast to what lies in memory already."""
    if _is_mark(value):
        return _rounds(value.args[0])  # type: ignore[attr-defined]
    return not isinstance(value, E.BufferLoad | E.Broadcast)


def _is_mark(value: PrimExpr) -> bool:
    return isinstance(value, E.Call) and getattr(value.op, "name", "") in _MARKS


def _pairs(emitter: KernelEmitter, forms: PairForms, value: Any) -> Lanes:
    """A vector, two lanes at a time, each rounded to its dtype."""
    if _is_mark(value):
        return _pairs(emitter, forms, value.args[0])
    if isinstance(value, E.BufferLoad):
        found = loaded_pairs(emitter, value)
        return _joined(forms, loaded(emitter, value)) if found is None else found
    if isinstance(value, E.Broadcast):
        item = held(emitter, value.dtype, *stored(emitter, value.value))
        return [_named(emitter, forms, call(forms.of_values, item, item))] * (value.lanes // 2)
    if _computes(emitter, value):
        return _operation(emitter, forms, value)
    floats = _floats(emitter, value)
    if floats is None:
        return _joined(forms, stored(emitter, value))
    return [call(forms.of_floats, *floats[at : at + 2]) for at in range(0, len(floats), 2)]


def _joined(forms: PairForms, values: Lanes) -> Lanes:
    """Values as they lie in memory, two by two."""
    return [call(forms.of_values, *values[at : at + 2]) for at in range(0, len(values), 2)]


def _floats(emitter: KernelEmitter, value: PrimExpr) -> Lanes | None:
    """The lanes of a value in float32, before they are rounded; None where it does not hold them, or they are rounded already."""
    if isinstance(value, E.Cast):
        source = dt.element_of(value.value.dtype)
        return emitter.data(value.value) if source == "float32" or source in HALVES else None
    return emitter.data(value) if dt.element_of(value.dtype) in HALVES else None


def _operation(emitter: KernelEmitter, forms: PairForms, value: Any) -> Lanes:
    if isinstance(value, E.Add | E.Sub) and id(value) not in emitter.exact:
        for product, other in ((value.a, value.b), (value.b, value.a)):
            if isinstance(product, E.Mul) and id(product) not in emitter.exact:
                return _fused(emitter, forms, value, product, other)
    function = emitter.in_pairs[dt.element_of(value.dtype)][value.__class__]
    operands = zip(_pairs(emitter, forms, value.a), _pairs(emitter, forms, value.b), strict=True)
    return [call(function, a, b) for a, b in operands]


def _fused(emitter: KernelEmitter, forms: PairForms, value: Any, product: E.Mul, other: PrimExpr) -> Lanes:
    """The sum or difference of a product, which is its first or its second operand, and of something else."""
    factors = _pairs(emitter, forms, product.a), _pairs(emitter, forms, product.b)
    found = []
    for a, b, c in zip(*factors, _pairs(emitter, forms, other), strict=True):
        if isinstance(value, E.Sub):
            a, c = (a, call("__hneg2", c)) if product is value.a else (call("__hneg2", a), c)
        found.append(call("__hfma2", a, b, c))
    return found


def _named(emitter: KernelEmitter, forms: PairForms, value: Text) -> Text:
    """A pair under a name."""
    name = emitter.fresh("pair")
    emitter.line(f"const {forms.type} {name} = {value.code};")
    return Text(name)
