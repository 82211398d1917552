"""What a kernel declares of its operands, beside what a call gives: extents, strides and offsets.

Tensors of graphs are dense and begin at their first element. A variable of the kernel has the value of the scalar that it is, else the
first extent, stride or offset that it is alone; at every other place the two must agree.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ...arith.analyzer import Analyzer
from ...structural import structural_equal
from ...tir.buffer import Buffer
from ...tir.expr import IntImm, PrimExpr, Select
from ...tir.expr import Var as TirVar
from ...tir.function import PrimFunc
from ...tir.operators import const, logical_and
from ...tir.stmt_functor import substitute


@dataclass(frozen=True, slots=True)
class Place:
    """Something that a kernel declares of an operand.

    Attributes:
        operand: the number of the operand.
        what: ``"an extent"``, ``"a stride"`` or ``"an offset"``.
        axis: of the extent or stride; None for an offset.
        given: what the call gives, an int64 expression of the caller's symbols.
        declared: what it must be, where variables of the kernel that the call names are replaced by what it gives.
    """

    operand: int
    what: str
    axis: int | None
    given: PrimExpr
    declared: PrimExpr

    @property
    def difference(self) -> int | None:
        """By how much the two differ, as far as that is known: 0 where they are surely the same."""
        given, declared = self.given, self.declared
        if given is declared:
            return 0
        if isinstance(given, IntImm) and isinstance(declared, IntImm):
            return given.value - declared.value
        if structural_equal(given, declared):
            return 0
        found = Analyzer().simplify(given - declared)
        return found.value if isinstance(found, IntImm) else None

    def __str__(self) -> str:
        declared = self.declared.value if isinstance(self.declared, IntImm) else self.declared
        return f"{self.what} of {declared}" + ("" if self.axis is None else f" along axis {self.axis}")


@dataclass(frozen=True, slots=True)
class KernelOperands:
    """The variables of a kernel with their values, and all places to compare."""

    symbols: dict[TirVar, PrimExpr]
    places: list[Place]


def kernel_operands(
    kernel: PrimFunc,
    shapes: Sequence[Sequence[PrimExpr] | None],
    scalars: Sequence[PrimExpr] | None = (),
) -> KernelOperands:
    """What a call of a kernel gives it.

    Args:
        kernel: the kernel, whose buffers come first among its parameters.
        shapes: the extents of each tensor, for the first parameters; None for one of which nothing is known.
        scalars: the numbers for the parameters behind; None if they are not known.
    """
    symbols: dict[TirVar, PrimExpr] = {}
    for param, value in zip(kernel.params[len(shapes) :], scalars or (), strict=False):
        symbols[param] = value
    found: list[tuple[int, str, int | None, PrimExpr, PrimExpr]] = []
    for number, (param, shape) in enumerate(zip(kernel.params, shapes, strict=False)):
        buffer = kernel.buffer_map.get(param)
        if buffer is None or shape is None or len(shape) != len(buffer.shape):
            continue
        for what, axis, given, declared in _of_buffer(buffer, shape):
            if isinstance(declared, TirVar) and declared not in kernel.params:
                symbols.setdefault(declared, given)
            found.append((number, what, axis, given, declared))
    values = {var: value.astype(var.dtype) for var, value in symbols.items()}
    places = []
    for number, what, axis, given, declared in found:
        wanted = declared if isinstance(declared, IntImm) else substitute(declared, values)
        if wanted.is_compound:
            wanted = Analyzer().simplify(wanted)
        if what == "a stride":
            given = _where_it_matters(given, wanted, axis, shapes[number])
        places.append(Place(number, what, axis, given, wanted.astype("int64")))
    return KernelOperands(symbols, places)


def _of_buffer(
    buffer: Buffer, shape: Sequence[PrimExpr]
) -> Iterator[tuple[str, int | None, PrimExpr, PrimExpr]]:
    """What is said of a dense tensor of a shape that is passed for a buffer: the kind, the axis, what is given, what is declared."""
    for axis, (extent, wanted) in enumerate(zip(shape, buffer.shape, strict=True)):
        yield "an extent", axis, extent, wanted
    for axis, stride in enumerate(buffer.strides):
        dense: PrimExpr = const(1, "int64")
        for extent in shape[axis + 1 :]:
            dense = dense * extent
        yield "a stride", axis, dense, stride
    if buffer.elem_offset is not None:
        yield "an offset", None, const(0, "int64"), buffer.elem_offset


def _where_it_matters(
    given: PrimExpr, wanted: PrimExpr, axis: int | None, shape: Sequence[PrimExpr] | None
) -> PrimExpr:
    """The stride along an axis; the wanted one where there is at most one element along it, or none at all."""
    assert axis is not None and shape is not None
    if given is wanted:
        return given
    counts = shape[axis] > 1
    for extent in shape:
        counts = logical_and(counts, extent > 0)
    if isinstance(counts, IntImm):
        return given if counts.value else wanted.astype("int64")
    return Select(counts, given, wanted.astype("int64"))


def unproved(operands: KernelOperands) -> list[Place]:
    """The places that only a run can compare; those that surely differ as well."""
    return [place for place in operands.places if place.difference != 0]
