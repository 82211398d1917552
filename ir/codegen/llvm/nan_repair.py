"""Maxima and minima of whole vectors that keep NaN, in two instructions of AVX-512: one that may lose NaN, and one that puts it back.

``vfixupimmps`` replaces what its second operand's class says: where the new element is NaN, NaN takes the place of the result. The
accumulator's own NaN is kept by the first instruction, which gives its second operand where either one is NaN. LLVM's ``maximum``
compares and blends instead, which is one instruction more.
"""

from __future__ import annotations

from ... import dtype as dt
from ...tir import expr as E
from .builder import Value, element_of, lanes_of, mangled, vector
from .kernel_context import KernelContext

_BITS = {"float": 32, "double": 64}
_WIDTH = 512
_TABLE = 0x22
"""For both kinds of NaN a quiet NaN of the second operand; for all other classes what is there already."""


def repairs(context: KernelContext, expr: E.Max | E.Min, type_: str) -> bool:
    """Whether an extreme is computed so: in whole vectors of a machine on which it is faster, of two operands that may be NaN."""
    bits = _BITS.get(element_of(type_))
    parts = 0 if bits is None else bits * lanes_of(type_) / _WIDTH
    if not context.repairs_nan or parts not in (1, 2, 4, 8):
        return False
    return _may_be_nan(expr.a) and _may_be_nan(expr.b)


def _may_be_nan(expr: E.PrimExpr) -> bool:
    value = expr.value if isinstance(expr, E.Broadcast) else expr
    if isinstance(value, E.FloatImm):
        return bool(value.value != value.value)
    return not (isinstance(value, E.Cast) and dt.is_integral(value.value.dtype))


def extreme(context: KernelContext, greater: bool, kept: Value, new: Value) -> str:
    """The call that gives the larger or the smaller of two vectors, NaN where one has it.

    Args:
        context: of the module, which gets a function for the type.
        greater: whether the larger one is meant.
        kept: what the next step of a reduction waits for.
        new: what is combined with it.
    """
    type_ = kept.type
    name = f"loopsmith.{'maximum' if greater else 'minimum'}.{mangled(type_)}"
    if not context.module.is_defined(name):
        context.module.define(name, _definition(context, name, "ogt" if greater else "olt", type_))
    return f"call {type_} @{name}({type_} {kept.ref}, {type_} {new.ref})"


def _definition(context: KernelContext, name: str, condition: str, type_: str) -> str:
    element, lanes = element_of(type_), lanes_of(type_)
    count = _WIDTH // _BITS[element]
    part, table = vector(element, count), vector(f"i{_BITS[element]}", count)
    suffix, mask = ("ps", "i16") if element == "float" else ("pd", "i8")
    repair = context.module.declare(
        f"llvm.x86.avx512.mask.fixupimm.{suffix}.512", part, [part, part, table, "i32", mask, "i32"]
    )
    entries = ", ".join([f"i{_BITS[element]} {_TABLE}"] * count)
    lines = [
        f"define internal {type_} @{name}({type_} %kept, {type_} %new) alwaysinline {context.attributes} {{",
        f"  %beyond = fcmp {condition} {type_} %new, %kept",
        f"  %larger = select {vector('i1', lanes)} %beyond, {type_} %new, {type_} %kept",
    ]
    parts = []
    for start in range(0, lanes, count):
        chosen = _lanes(range(start, start + count))
        for source in ("larger", "new"):
            lines.append(f"  %{source}.{start} = shufflevector {type_} %{source}, {type_} poison, {chosen}")
        lines.append(
            f"  %part.{start} = call {part} @{repair}({part} %larger.{start}, {part} %new.{start}, {table} <{entries}>,"
            f" i32 0, {mask} -1, i32 4)"
        )
        parts.append((f"%part.{start}", count))
    while len(parts) > 1:  # joined two by two: shuffles take two vectors of one width
        joined = []
        for (a, width), (b, _) in zip(parts[::2], parts[1::2]):
            name_ = f"{a}.{width}"
            kind = vector(element, width)
            lines.append(f"  {name_} = shufflevector {kind} {a}, {kind} {b}, {_lanes(range(2 * width))}")
            joined.append((name_, 2 * width))
        parts = joined
    lines += [f"  ret {type_} {parts[0][0]}", "}"]
    return "\n".join(lines)


def _lanes(indices: range) -> str:
    return f"<{len(indices)} x i32> <{', '.join(f'i32 {index}' for index in indices)}>"
