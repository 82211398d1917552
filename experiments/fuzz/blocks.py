"""Random blocks: over the elements of a buffer, with a reduction, and with a view of a part of a buffer."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from .values import FLOATS, BufferSpec, Variable, literal

if TYPE_CHECKING:
    from .statements import Statements

_MOST_RUNS = 4000
"""Of a block, together with the loops around it."""


def _target(source: Statements, reducible: bool) -> BufferSpec | None:
    """A buffer that a block may store all of; None if there is none."""
    scope = source.scope
    if scope.in_vector or scope.in_parallel:
        return None
    targets = [
        buffer
        for buffer in scope.targets()
        if buffer.name not in scope.pins
        and not (reducible and (buffer.dtype == "bool" or buffer.reals))
        and scope.iterations * math.prod(buffer.shape) <= _MOST_RUNS
    ]
    return source.random.choice(targets) if targets else None


def _axes(source: Statements, buffer: BufferSpec) -> tuple[list[str], list[Variable]]:
    """Names of loops over a buffer, and the block's variables that they are bound to."""
    loops = [source.scope.fresh("i") for _ in buffer.shape]
    axes = [Variable(source.scope.fresh("v"), "int32", 0, extent - 1) for extent in buffer.shape]
    return loops, axes


def _open_block(source: Statements, buffer: BufferSpec, loops: list[str], axes: list[Variable]) -> None:
    """The header of a block and its spatial variables."""
    source.scope.open(f'with T.block("{source.scope.fresh("blk")}"):')
    for loop, axis, extent in zip(loops, axes, buffer.shape):
        source.scope.emit(f"{axis.name} = T.axis.spatial({extent}, {loop})")


def _element(buffer: BufferSpec, axes: list[Variable]) -> str:
    return f"{buffer.name}[{', '.join(axis.name for axis in axes)}]"


def _others(source: Statements, buffer: BufferSpec) -> list[BufferSpec]:
    """What the block of a buffer may read: not the buffer, for the order of a block's iterations is not defined."""
    return [other for other in source.scope.buffers if other.place != buffer.place]


def _parameters(source: Statements) -> list[Variable]:
    """What a block sees of the variables around it."""
    return [variable for variable in source.scope.variables if variable.is_parameter]


_OUTER_KINDS = ["serial", "serial", "parallel", "unroll"]
_INNERMOST_KINDS = ["serial", "vectorized", "unroll", "parallel"]


# -- a block for every element -----------------------------------------------------
def spatial(source: Statements, depth: int) -> None:
    """A block that stores every element of a buffer; its loops may run too far, under a predicate."""
    scope = source.scope
    buffer = _target(source, reducible=False)
    if buffer is None:
        source.store(depth)
        return
    loops, axes = _axes(source, buffer)
    with scope.nest():
        predicate = _open_loops(source, buffer, loops)
        _open_block(source, buffer, loops, axes)
        if predicate:
            scope.emit(f"T.where({' and '.join(predicate)})")
        with scope.only(_parameters(source) + axes, _others(source, buffer)):
            scope.emit(f"{_element(buffer, axes)} = {source.value_for(buffer)}")


def _open_loops(source: Statements, buffer: BufferSpec, loops: list[str]) -> list[str]:
    """The loops over a buffer, some too long; the conditions that the block then needs."""
    conditions = []
    for loop, extent in zip(loops, buffer.shape):
        innermost = loop == loops[-1]
        kind = source.random.choice(_INNERMOST_KINDS if innermost else _OUTER_KINDS)
        padding = source.random.choice([0, 0, 1, 3])
        source.scope.open_loop(loop, kind, str(extent + padding), extent + padding)
        if padding:
            conditions.append(f"{loop} < {extent}")
    return conditions


# -- a reduction -------------------------------------------------------------------
def reduction(source: Statements, depth: int) -> None:
    """A block with an initial value, and loops in any order."""
    scope = source.scope
    buffer = _target(source, reducible=True)
    if buffer is None:
        source.store(depth)
        return
    loops, axes = _axes(source, buffer)
    loop, name, extent = scope.fresh("k"), scope.fresh("v"), source.random.choice([0, 1, 2, 3, 5, 8, 9])
    with scope.nest():
        _open_reduction_loops(source, [*zip(loops, buffer.shape), (loop, extent)])
        _open_block(source, buffer, loops, axes)
        scope.emit(f"{name} = T.axis.reduce({extent}, {loop})")
        with scope.only(_parameters(source) + axes, _others(source, buffer)):
            initial = source.value_for(buffer, 1)
            with scope.body("with T.init():"):
                scope.emit(f"{_element(buffer, axes)} = {initial}")
            with scope.visible(Variable(name, "int32", 0, max(extent - 1, 0))):
                scope.emit(_update(source, buffer, _element(buffer, axes)))


def _open_reduction_loops(source: Statements, loops: list[tuple[str, int]]) -> None:
    """Loops over a buffer and, last in the list, over what is reduced, in any order."""
    reduced, _ = loops[-1]
    source.random.shuffle(loops)
    for loop, extent in loops:
        kinds = ["serial", "unroll"]
        if loop != reduced:
            kinds = ["serial", "serial", "unroll", "parallel"]
            kinds += ["vectorized"] if loop == loops[-1][0] else []
        source.scope.open_loop(loop, source.random.choice(kinds), str(extent), extent)


def _update(source: Statements, buffer: BufferSpec, element: str) -> str:
    """The store of a reduction that stays in the buffer's interval."""
    value = source.value_for(buffer)
    operation = source.random.choice(["min", "max", "add", "xor"])
    if operation == "xor" and buffer.dtype in FLOATS:
        operation = "max"
    if operation == "xor" and not buffer.covers_dtype and (buffer.low < 0 or buffer.high & (buffer.high + 1)):
        operation = "min"
    if operation == "add" and not buffer.covers_dtype:
        operation = "max"
    if operation == "add":
        return f"{element} = {element} + {value}"
    name = "bitwise_xor" if operation == "xor" else operation
    return f"{element} = T.{name}({element}, {value})"


# -- a view ------------------------------------------------------------------------
def view(source: Statements, depth: int) -> None:
    """A block whose statements use a part of a buffer by another name, and in half of the cases the buffer as well."""
    scope = source.scope
    targets = [] if scope.in_vector else scope.targets()
    if not targets:
        source.store(depth)
        return
    buffer = source.random.choice(targets)
    region, shape = _region(source, buffer)
    block, name = scope.fresh("blk"), scope.fresh("V")
    with scope.body(f'with T.block("{block}"):'):
        strides = _strides(source, len(shape))
        offset = source.random.choice(["", ", offset_factor=1"])
        arguments = f'{tuple(shape)}, "{buffer.dtype}"{strides}{offset}'
        scope.emit(f"{name} = T.match_buffer({buffer.name}[{', '.join(region)}], {arguments})")
        part = BufferSpec(
            name, shape, buffer.dtype, buffer.low, buffer.high, buffer.reals, buffer.place, buffer.is_shared
        )
        with scope.viewed(buffer, part, aliased=source.random.random() < 0.5):
            source.sequence(depth - 1)


def _region(source: Statements, buffer: BufferSpec) -> tuple[list[str], list[int]]:
    """Slices of a buffer, one for each dimension, and their extents; a pinned dimension stays at its index."""
    pins = source.scope.pinned(buffer)
    region, shape = [], []
    for dimension, whole in enumerate(buffer.shape):
        start, extent = pins.get(dimension), 1
        if start is None:
            extent = source.random.randint(1, whole)
            extent = whole if source.random.random() < 0.4 else extent
            index = source.expressions.index(whole - extent + 1, 1)
            start = str(index if index.dtype == "int32" else literal(0, "int32"))
        region.append(f"{start}:{start} + {extent}")
        shape.append(extent)
    return region, shape


def _strides(source: Statements, rank: int) -> str:
    """The argument that names a view's strides, in half of the cases."""
    if source.random.random() >= 0.5:
        return ""
    names = [source.scope.fresh("st") for _ in range(rank)]
    for name in names:
        source.scope.emit(f"{name} = T.int32()")
    return f", strides=[{', '.join(names)}]"
