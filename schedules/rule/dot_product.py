"""Products of narrow numbers in groups: what a processor's dot-product instructions multiply and add in one step.

    for k: C[i, j] += int32(A[i, k]) * int32(B[k, j])

becomes, with four numbers in a group,

    for k0: for j (vector): for g in 4: C[i, j] += int32(A[i, 4 * k0 + g]) * int32(B[k0, j, g])

of which lowering makes one instruction for a vector of sums (:mod:`ir.tir.transform.inject_dot_product`). The groups of B lie side by side
in a panel; those of A have to be contiguous as they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import prod
from typing import Any

from ir import dtype as dt
from ir import tir
from ir.codegen.llvm.compile import options_of
from ir.codegen.llvm.dot_product import group_of, needs_sign_corrections
from ir.target import Target
from ir.tir import IterVar

from ..affine import mentions
from ..block_facts import is_one, node_of, operand_loads, reduce_vars
from ..random_variable import BlockRV
from ..schedule import Schedule
from ..tree import BlockNode, LeafNode
from .padding import RegisterFile


@dataclass(frozen=True)
class DotProduct:
    """How the numbers of a product are put into groups.

    Attributes:
        axis: position of the reduction variable that is split, among the block's variables.
        size: numbers in a group.
        panels: the operand whose groups lie side by side for the lanes.
        has_corrections: whether a tile has sums of what signs add, one for each vector of a row (:class:`HoistSignCorrection`).
        in_tiles: whether tiles are registers of a matrix unit (:mod:`.matrix_tile`).
    """

    axis: int
    size: int
    panels: tir.Buffer
    has_corrections: bool = False
    in_tiles: bool = False

    def registers(self, registers: RegisterFile) -> RegisterFile:
        """What tiles go by."""
        return replace(registers, per_column=2, others=2) if self.has_corrections else registers


@dataclass(frozen=True)
class GroupedBlock:
    """A block whose reduction runs over groups.

    Attributes:
        group_var: the variable that runs through a group.
        size: numbers in a group.
        renamed: by each variable of the block before, but for the one that was split, the one that it has become.
    """

    group_var: Any
    size: int
    renamed: dict[Any, Any]


def dot_product_of(node: BlockNode, vector_var: Any, target: Target) -> DotProduct | None:
    """The groups of a block that adds up products of two narrow numbers; None where the target has no instruction for them."""
    loads = _operands(node)
    if loads is None or vector_var is None or target.is_gpu or _has_one_lane(node, vector_var):
        return None
    vectors = [load for load in loads if mentions(load, {vector_var})]
    if len(vectors) != 1:
        return None
    (panels,) = vectors
    (other,) = [load for load in loads if load is not panels]
    size = group_of(target, other.buffer.dtype, panels.buffer.dtype, node.writes[0].buffer.dtype)
    for position, item in enumerate(node.iter_vars):
        is_reduction = any(item.var is var for var in reduce_vars(node))
        if size and is_reduction and _is_contiguous(other, item.var) and _stands_alone(panels, item.var):
            extent = item.dom.extent
            if isinstance(extent, tir.IntImm) and extent.value > size and extent.value % size == 0:
                alike = other.buffer.dtype == panels.buffer.dtype and dt.bits(panels.buffer.dtype) == 8
                return DotProduct(
                    position, size, panels.buffer, alike and needs_sign_corrections(options_of(target))
                )
    return None


def _has_one_lane(node: BlockNode, vector_var: Any) -> bool:
    return any(item.var is vector_var and is_one(item.dom.extent) for item in node.iter_vars)


def _operands(node: BlockNode) -> tuple[tir.BufferLoad, tir.BufferLoad] | None:
    """The two numbers that a block multiplies, each converted from another type, and adds to its result."""
    store = node.body.leaf if isinstance(node.body, LeafNode) else None
    if not isinstance(store, tir.BufferStore) or not isinstance(store.value, tir.Add):
        return None
    total, product = store.value.a, store.value.b
    if isinstance(total, tir.Mul):
        total, product = product, total
    if not isinstance(total, tir.BufferLoad) or total.buffer is not store.buffer:
        return None
    sides = (product.a, product.b) if isinstance(product, tir.Mul) else ()
    found = [
        side.value for side in sides if isinstance(side, tir.Cast) and isinstance(side.value, tir.BufferLoad)
    ]
    return (found[0], found[1]) if len(found) == 2 else None


def _is_contiguous(load: tir.BufferLoad, var: Any) -> bool:
    """Whether a variable runs through an operand element by element, from multiples of a group on."""
    *others, last = load.indices
    strides = load.buffer.strides
    is_dense = not strides or is_one(strides[-1])
    return is_dense and last is var and not any(mentions(index, {var}) for index in others)


def _stands_alone(load: tir.BufferLoad, var: Any) -> bool:
    """Whether a variable is an index and in no other one, so that groups begin at multiples of their size."""
    mentioning = [index for index in load.indices if mentions(index, {var})]
    return len(mentioning) == 1 and mentioning[0] is var


def has_vectors(node: BlockNode, vector_var: Any, padding: Mapping[Any, int], lanes: int) -> bool:
    """Whether register tiles have vectors of several lanes, and where an axis is padded some that are whole: masked ones stay loops."""
    extent = next(item.dom.extent for item in node.iter_vars if item.var is vector_var)
    if not isinstance(extent, tir.IntImm):
        return True
    return bool(extent.value >= lanes if vector_var in padding else extent.value % 2 == 0)


def rows_of(node: BlockNode, panels: tir.Buffer) -> int:
    """How many results in each lane use an element of the panels."""
    (load,) = [item for item in operand_loads(node) if item.buffer is panels]
    others = [
        item
        for item in node.iter_vars
        if item.iter_type == IterVar.DataPar and not mentions(load, {item.var})
    ]
    return prod(item.dom.extent.value if isinstance(item.dom.extent, tir.IntImm) else 1 for item in others)


def group_reduction(sch: Schedule, block: BlockRV, dot: DotProduct) -> GroupedBlock:
    """Split the reduction of a block into groups, with a variable and a loop of their own.

    Raises:
        ScheduleError: a primitive refuses a step.
    """
    before = [item.var for item in node_of(sch, block).iter_vars]

    def grouped(*variables: Any) -> list[Any]:
        whole = variables[dot.axis]
        parts = [tir.floordiv(whole, dot.size), tir.floormod(whole, dot.size)]
        return [*variables[: dot.axis], *parts, *variables[dot.axis + 1 :]]

    sch.transform_block_layout(block, grouped)
    after = [item.var for item in node_of(sch, block).iter_vars]
    renamed = dict(zip(before[: dot.axis], after)) | dict(zip(before[dot.axis + 1 :], after[dot.axis + 2 :]))
    return GroupedBlock(after[dot.axis + 1], dot.size, renamed)
