"""Register tiles: a block's loops in levels of which the innermost lives in vector registers, and operands in panels of its width.

What the rules that tile so for CPUs share (:class:`~schedules.rule.register_tiling.RegisterTiling`,
:class:`~schedules.rule.winograd_convolution.WinogradConvolution`): how loops are split, which tiles a machine can hold, and how they are
marked. In which order the levels stand, and what is computed in them besides, is the rule's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np

from ir import tir
from ir.target import Target
from ir.tir import IndexMap
from ir.tir.kernel_attributes import LAYOUT_REWRITE_PREPROC

from ..affine import mentions
from ..analysis import lanes_of
from ..annotation import PARALLEL, UNROLL, VECTORIZE
from ..block_facts import is_one, loop_position, node_of, own_loop_position, reduce_vars
from ..error import ScheduleError
from ..random_variable import BlockRV, ExprRV, LoopRV
from ..schedule import Schedule
from ..tree import BlockNode, loops_around, loops_of_its_own
from .jobs import MOST_JOBS_PER_CORE
from .padding import RegisterFile

LONG_BODY = 112
"""Vector instructions of an unrolled body beyond which LLVM moves loads far ahead of their use, and runs out of registers for it."""


@dataclass(frozen=True)
class FactorLimits:
    """Bounds of innermost factors.

    Attributes:
        vector: of the vector axis.
        other: of all other axes.
    """

    vector: int
    other: int


@dataclass(frozen=True)
class VectorLoop:
    """The innermost loop of the vector axis, and the factor that is its extent."""

    loop: LoopRV
    factor: ExprRV


@dataclass
class TiledLoops:
    """The loops of a block in levels.

    Attributes:
        loops: by kind ("S" or "R") and axis those into which a loop was split, from the outside in; one that stayed whole is alone.
        factors: by kind and axis the factors of those that were split.
        vector: of the vector axis, where it was split.
        innermost: the loop of the variable that was to stay inside of all levels.
        split: by block variable that has a loop of its own, the loops and the factors where that was split.
    """

    loops: dict[str, list[list[LoopRV]]] = field(default_factory=lambda: {"S": [], "R": []})
    factors: dict[str, list[list[ExprRV]]] = field(default_factory=lambda: {"S": [], "R": []})
    vector: VectorLoop | None = None
    innermost: LoopRV | None = None
    split: dict[Any, tuple[list[LoopRV], list[ExprRV]]] = field(default_factory=dict)


def require_structure(rule: str, structure: str) -> None:
    """Raise a ScheduleError unless a string names levels, of which the innermost is spatial."""
    if not structure or set(structure) - {"S", "R"}:
        raise ScheduleError(f"{rule}: structure must consist of S and R, got {structure!r}")
    if not structure.endswith("S"):
        raise ScheduleError(f"{rule}: structure must end with S, got {structure!r}")


def registers_for(node: BlockNode, target: Target) -> RegisterFile:
    """What register tiles of a block's results go by."""
    return RegisterFile(lanes_of(target, node), target.vector_registers)


def split_loops(
    sch: Schedule,
    block: BlockRV,
    vector_var: Any,
    structure: str,
    limits: FactorLimits,
    *,
    is_inside: bool = False,
    whole: Sequence[Any] = (),
    innermost: Any = None,
) -> TiledLoops:
    """Split every loop of the block's own by a perfect tile, into as many as the structure has levels of its kind.

    Loops of extent 1 stay whole, and so do those of the variables in ``whole``; that of ``innermost`` is in no level. A block that
    ``is_inside`` the tile of another nest shares its outer loops.
    """
    node = node_of(sch, block)
    position_of = own_loop_position if is_inside else loop_position
    reducing = {position_of(node, var) for var in reduce_vars(node)}
    kept = {position_of(node, var) for var in whole}
    apart = position_of(node, innermost) if innermost is not None else None
    n_shared = len(loops_around(node)) - len(loops_of_its_own(node)) if is_inside else 0
    vector_position = position_of(node, vector_var) if vector_var is not None else None
    variables = {position_of(node, item.var): item.var for item in node.iter_vars}
    loop_nodes = loops_around(node)
    tiled = TiledLoops()
    for position, loop in list(enumerate(sch.get_loops(block)))[n_shared:]:
        kind = "R" if position in reducing else "S"
        if position == apart:
            tiled.innermost = loop
            continue
        if is_one(loop_nodes[position].extent) or position in kept:
            tiled.loops[kind].append([loop])
            continue
        is_vector = position == vector_position
        limit = limits.vector if is_vector else limits.other
        factors = sch.sample_perfect_tile(loop, structure.count(kind), limit)
        parts = sch.split(loop, factors)
        tiled.loops[kind].append(parts)
        tiled.factors[kind].append(factors)
        if position in variables:
            tiled.split[variables[position]] = (parts, factors)
        if is_vector:
            tiled.vector = VectorLoop(parts[-1], factors[-1])
    return tiled


def keep_within_machine(
    sch: Schedule, tiled: TiledLoops, registers: RegisterFile, cores: int, serial: Sequence[ExprRV] = ()
) -> None:
    """Build the machine's limits into the tables of a sketch: vector width, register file, unrolled code, cores.

    The outermost factors of spatial loops run on the cores, but for those in ``serial``.
    """
    lanes = registers.lanes
    vector_rv = tiled.vector.factor if tiled.vector is not None else None
    for factors in tiled.factors["S"]:
        if vector_rv is not None and factors[-1] is vector_rv:
            sch.restrict_tile(factors, lambda table: _vector_friendly(table[:, -1], lanes))
    inner = [factors[-1] for factors in tiled.factors["S"]]
    if inner:

        def fits(*values: np.ndarray) -> np.ndarray:
            rows, columns = np.ones(1), np.ones(1)
            for rv, value in zip(inner, values, strict=True):
                if rv is vector_rv:
                    columns = columns * np.ceil(value / lanes)
                else:
                    rows = rows * value
            fitting: np.ndarray = registers.fits(rows, columns)
            return fitting

        sch.constrain(inner, fits)
    unrolled = [factors[-1] for factors in tiled.factors["R"]]
    if unrolled and inner:

        def short(*values: np.ndarray) -> np.ndarray:
            tile, steps = np.ones(1), np.ones(1)
            for position, (rv, value) in enumerate(zip([*inner, *unrolled], values, strict=True)):
                if position < len(inner):
                    tile = tile * (np.ceil(value / lanes) if rv is vector_rv else value)
                else:
                    steps = steps * value
            # Long bodies around a full register tile make LLVM spill accumulators.
            return tile * steps <= np.where(tile >= registers.registers // 2, LONG_BODY, 256)

        sch.constrain([*inner, *unrolled], short)
    keep_cores_busy(sch, tiled, cores, serial)


def keep_cores_busy(sch: Schedule, tiled: TiledLoops, cores: int, serial: Sequence[ExprRV] = ()) -> None:
    """Let there be work for all cores, but not too little for each piece; the outermost factors in ``serial`` run on one of them."""
    shared = [factors for factors in tiled.factors["S"] if factors[0] not in serial]
    outer = [factors[0] for factors in shared]
    if outer:
        most = prod(map(sch.largest_of, outer))

        def busy(*values: np.ndarray) -> np.ndarray:
            jobs = np.ones(1)
            for value in values:
                jobs = jobs * value
            return (jobs >= min(cores, most)) & (jobs <= MOST_JOBS_PER_CORE * cores)

        sch.constrain(outer, busy)


# ---- marks --------------------------------------------------------------------------------------------------------


def mark_register_tile(sch: Schedule, innermost: Sequence[LoopRV], vector: VectorLoop | None) -> None:
    """Bring the vector loop inside of a register tile, and unroll the others."""
    if vector is not None and innermost[-1] is not vector.loop:
        others = [loop for loop in innermost if loop is not vector.loop]
        sch.reorder(*others, vector.loop)
    for loop in innermost:
        is_vector = vector is not None and loop is vector.loop
        sch.annotate(loop, VECTORIZE if is_vector else UNROLL, 1)


def mark_epilogue(sch: Schedule, epilogue: BlockRV) -> None:
    """Let the block that takes a register tile's results run as the tile does."""
    n_inner = len(loops_of_its_own(node_of(sch, epilogue)))
    loops = sch.get_loops(epilogue)
    inner = loops[len(loops) - n_inner :]
    for position, inner_loop in enumerate(inner):
        last = position == len(inner) - 1
        sch.annotate(inner_loop, VECTORIZE if last else UNROLL, 1)


# ---- panels -------------------------------------------------------------------------------------------------------


def pack_operand(
    sch: Schedule,
    block: BlockRV,
    buffer: tir.Buffer,
    vector_var: Any,
    width: ExprRV,
    *,
    is_constant: bool,
    is_padded: bool = False,
    group: tuple[Any, int] | None = None,
) -> None:
    """Copy an operand into panels ``[n // width, others..., n % width]`` that the kernel reads contiguously.

    With groups of a reduction ``k`` they are ``[n // width, others..., k // size, n % width, k % size]``.

    Args:
        block: the reader.
        buffer: the operand, which the vector axis indexes alone in one dimension.
        width: of a register tile along the vector axis.
        is_constant: whether it is packed when the model is compiled.
        is_padded: whether the vector axis is padded, so that the last panel may end behind the operand.
        group: the variable that runs through a group of the reduction, and how many numbers that has.
    """
    node = node_of(sch, block)
    position = next(i for i, region in enumerate(node.reads) if region.buffer is buffer)
    region = node.reads[position]
    vector_dim = next(i for i, item in enumerate(region.region) if item.min is vector_var)
    grouped = None
    if group is not None:
        dim = next(i for i, item in enumerate(region.region) if mentions(item.min, {group[0]}))
        grouped = (dim, group[1])
    copy = sch.cache_read(block, position, "global")
    node = node_of(sch, block)
    position = next(
        i for i, item in enumerate(node.reads) if item.buffer is node_of(sch, copy).writes[0].buffer
    )

    def panels(around: BlockNode) -> IndexMap:
        return panel_map(len(region.region), vector_dim, width, around.iter_vars[0].var.dtype, grouped)

    # Behind a padded axis' end the last panel has anything in it: the kernel masks it.
    sch.transform_layout(block, ("read", position), panels(node), assume_injective_transform=is_padded)
    sch.transform_block_layout(copy, panels(node_of(sch, copy)))
    if is_constant:
        sch.annotate(copy, LAYOUT_REWRITE_PREPROC, 1)
        return
    loops = sch.get_loops(copy)
    if len(loops) > 1:
        sch.annotate(loops[0], PARALLEL, 1)
    sch.annotate(loops[-1], VECTORIZE, 1)


def panel_map(ndim: int, dim: int, width: Any, dtype: str, group: tuple[int, int] | None = None) -> IndexMap:
    """The map that moves ``index[dim] // width`` to the front and ``index[dim] % width`` to the back, with its inverse.

    ``group`` is another dimension and a number: what is left of that index divided by the number comes last.
    """
    initial = [tir.Var(f"i{n}", dtype) for n in range(ndim)]
    rest: dict[int, Any] = {n: var for n, var in enumerate(initial) if n != dim}
    parts = [tir.floormod(initial[dim], width)]
    if group is not None:
        grouped, size = group
        rest[grouped] = tir.floordiv(initial[grouped], size)
        parts.append(tir.floormod(initial[grouped], size))
    final = [tir.floordiv(initial[dim], width), *rest.values(), *parts]
    back = [tir.Var(f"p{n}", dtype) for n in range(len(final))]
    restored: dict[int, Any] = dict(zip(rest, back[1:]))
    restored[dim] = back[0] * width + back[len(rest) + 1]
    if group is not None:
        restored[grouped] = restored[grouped] * size + back[-1]
    return IndexMap(initial, final, IndexMap(back, [restored[n] for n in range(ndim)]))


def _vector_friendly(inner: np.ndarray, lanes: int) -> np.ndarray:
    """Whole vectors; where an extent has no such divisor, the widest powers of two there are."""
    whole: np.ndarray = inner % lanes == 0
    if whole.any():
        return whole
    powers = np.array([(value & -value) for value in inner.tolist()])
    narrow = (powers == inner) & (inner <= lanes)
    return narrow & (inner == inner[narrow].max()) if narrow.any() else np.ones(len(inner), dtype=bool)
