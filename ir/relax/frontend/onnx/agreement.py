"""Extents that a model takes for equal although only a run knows: they are compared when the program runs.

ONNX infers shapes from data, so a model may add a tensor of ``n`` columns to one of 5. Relax wants to know the shape of the sum
while it compiles: the operand with the unknown extent is cast to the other's by ``match_cast``, which refuses other extents.
(Also one of 1, which ONNX would broadcast: the shape of the result would be another.) Where one is 1 or 0, as that of ``x[:1]``,
and the other's may be 0 too, the operand is broadcast first, as the run finds it.
"""

from __future__ import annotations

from ir.arith.analyzer import Analyzer
from ir.relax import op
from ir.relax.expr import ShapeExpr
from ir.relax.struct_info import TensorStructInfo
from ir.relax.struct_info_lattice import prove_dim_equal
from ir.structural import structural_equal

from .context import Dim, Known, NodeContext

_BROADCASTING = frozenset(
    "Add Sub Mul Div Pow Mod And Or Xor BitwiseAnd BitwiseOr BitwiseXor Equal Less LessOrEqual Greater GreaterOrEqual BitShift "
    "Max Min Sum Mean Where PRelu".split()
)

#: Vectors with one element for each index along an axis of the first input: their places, and the axis (else the attribute's).
_PER_AXIS = {
    "BatchNormalization": ((1, 2, 3, 4), 1),
    "InstanceNormalization": ((1, 2), 1),
    "QuantizeLinear": ((1, 2), None),
    "DequantizeLinear": ((1, 2), None),
}


def agree(ctx: NodeContext) -> None:
    """Cast inputs of a node such that extents which must be equal are known to be."""
    if ctx.op_type in _PER_AXIS:
        _agree_along_an_axis(ctx, *_PER_AXIS[ctx.op_type])
    broadcasts = ctx.op_type in _BROADCASTING and ctx.opset >= 7
    if not broadcasts and ctx.op_type != "Concat":
        return
    shapes = {
        number: shape for number in range(len(ctx.inputs)) if (shape := _shape(ctx, number)) is not None
    }
    given = {number: list(shape) for number, shape in shapes.items()}
    spread: dict[int, dict[int, Dim]] = {number: {} for number in shapes}
    rank = max(map(len, shapes.values()), default=0)
    joined = None if broadcasts or not rank else int(ctx.attr("axis", 1)) % rank - rank
    for axis in range(-rank, 0):
        if axis == joined:
            continue
        at_axis = {number: shape for number, shape in shapes.items() if len(shape) >= -axis}
        dims = [shape[axis] for shape in at_axis.values() if not (broadcasts and _is_one(shape[axis]))]
        if not dims or all(prove_dim_equal(dims[0], dim) for dim in dims):
            continue
        _settle(axis, at_axis, spread, dims, [dim for dim in dims if broadcasts and _is_at_most_one(dim)])
    for number, shape in shapes.items():
        if any(new is not old for new, old in zip(shape, given[number], strict=True)):
            value = ctx.emit(ctx.expr(number))
            ctx.inputs[number] = ctx.builder.match_cast(value, TensorStructInfo(shape, ctx.dtype(value)))
        if spread[number]:
            whole = [spread[number].get(axis, shape[axis]) for axis in range(-len(shape), 0)]
            ctx.inputs[number] = ctx.emit(op.broadcast_to(ctx.expr(number), ShapeExpr(whole)))


def _settle(
    axis: int,
    shapes: dict[int, list[Dim]],
    spread: dict[int, dict[int, Dim]],
    dims: list[Dim],
    short: list[Dim],
) -> None:
    """Set what the operands' extents along an axis must be, and note in ``spread`` what those of at most 1 are broadcast to."""
    long = [dim for dim in dims if not any(dim is other for other in short)]
    wanted: Dim = next((dim for dim in long if isinstance(dim, int)), long[0] if long else 1)
    for number, shape in shapes.items():
        if isinstance(shape[axis], int):
            continue
        if not any(shape[axis] is dim for dim in short):
            shape[axis] = wanted
        elif isinstance(wanted, int):
            shape[axis] = 1
        else:
            spread[number][axis] = wanted


def _agree_along_an_axis(ctx: NodeContext, places: tuple[int, ...], axis: int | None) -> None:
    data = _shape(ctx, 0)
    axis = int(ctx.attr("axis", 1)) if axis is None else axis
    if data is None or not -len(data) <= axis < len(data):
        return
    vectors = {place: shape for place in places if ctx.has(place) and (shape := _shape(ctx, place))}
    vectors = {place: shape for place, shape in vectors.items() if len(shape) == 1 and not _is_one(shape[0])}
    dims = [data[axis], *(shape[0] for shape in vectors.values())]
    if all(prove_dim_equal(dims[0], dim) for dim in dims):
        return
    wanted: Dim = next((dim for dim in dims if isinstance(dim, int)), dims[0])
    data[axis % len(data)] = wanted
    for place, shape in {0: data, **{place: [wanted] for place in vectors}}.items():
        if not structural_equal(shape, _shape(ctx, place)):
            value = ctx.emit(ctx.expr(place))
            ctx.inputs[place] = ctx.builder.match_cast(value, TensorStructInfo(shape, ctx.dtype(value)))


def _is_one(dim: Dim) -> bool:
    return isinstance(dim, int) and dim == 1


def _is_at_most_one(dim: Dim) -> bool:
    """Whether an extent such as that of ``x[:1]`` is 1 where there is anything."""
    return not isinstance(dim, int) and bool(Analyzer().const_int_bound(dim).max_value <= 1)


def _shape(ctx: NodeContext, number: int) -> list[Dim] | None:
    """The extents of an input, where they are known; a constant's are numbers."""
    value = ctx.inputs[number]
    if value is None:
        return None
    if isinstance(value, Known):
        return list(value.array.shape)
    info = value.struct_info_
    known = isinstance(info, TensorStructInfo) and info.shape_values is not None
    return ctx.shape(value) if known else None
