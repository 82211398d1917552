"""Primitives that change how a block iterates: transform_block_layout and reorder_block_iter_var."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ir import tir
from ir.arith import Analyzer
from ir.error import IRError
from ir.tir import IndexMap, IterVar
from ir.tir.conjunction import conjuncts
from ir.tir.stmt_functor import substitute, variables_in

from ..affine import constant_difference, mentions, without_casts
from ..analysis import require, require_complete_or_reduction
from ..argument import Block, Integers, Map
from ..declaration import PrimitiveFamily, primitive
from ..dependence import require_own_elements
from ..effects import require_no_effects
from ..error import ScheduleError
from ..random_variable import BlockRV
from ..tree import BlockNode, LeafNode, LoopNode, TreeNode, loops_around, replace_node, scope_of
from .layout import map_indices, require_no_negative_index, substitute_block
from .wide_maps import all_held


class BlockLayoutPrimitives(PrimitiveFamily):
    """The iteration variables of a block."""

    @primitive(
        "TransformBlockLayout",
        block=Block(),
        index_map=Map(lambda sch, given: len(sch._block(given["block"]).iter_vars)),
    )
    def transform_block_layout(self, block: BlockRV | str, index_map: IndexMap | Callable[..., Any]) -> None:
        """Iterate a block over the mapped index space; its loops become the final indices of the map.

        ``for i in 4: for j in 8: B[i, j]`` by ``lambda i, j: [i * 8 + j]`` becomes ``for ax0 in 32: B[ax0 // 8, ax0 % 8]``.

        Raises:
            ScheduleError: the map is not injective, mixes data-parallel and reduction variables, or the loops around the block are
                not those of its variables.
        """
        assert isinstance(index_map, IndexMap)
        node, resolved = self._block(block), self._resolved_map(index_map)
        extents = [item.dom.extent for item in node.iter_vars]
        _transform_block_layout(node, resolved, self._symbolic_shape(resolved, extents))

    @primitive("ReorderBlockIterVar", block=Block(), new_order=Integers())
    def reorder_block_iter_var(self, block: BlockRV | str, new_order: Sequence[int]) -> None:
        """Put a block's iteration variables into another order; (vi, vj) by [1, 0] becomes (vj, vi).

        Raises:
            ScheduleError: the order is no permutation.
        """
        node = self._block(block)
        require(
            sorted(new_order) == list(range(len(node.iter_vars))),
            "reorder_block_iter_var",
            f"{new_order} is no permutation of the {len(node.iter_vars)} iteration variables of block {node.name!r}",
        )
        node.change(
            iter_vars=tuple(node.iter_vars[item] for item in new_order),
            iter_values=tuple(node.iter_values[item] for item in new_order),
        )


def _transform_block_layout(block: BlockNode, index_map: IndexMap, new_extents: list[Any] | None) -> None:
    primitive = "transform_block_layout"
    require(scope_of(block) is not None, primitive, f"block {block.name!r} is a root block")
    require_complete_or_reduction(block, primitive)
    require_no_effects([block], primitive)
    require(
        len(index_map.initial_indices) == len(block.iter_vars),
        primitive,
        f"the index map takes {len(index_map.initial_indices)} indices, block {block.name!r} has"
        f" {len(block.iter_vars)} iteration variables",
    )
    require(block.iter_vars, primitive, f"block {block.name!r} has no iteration variables to be mapped")
    for item in block.iter_vars:
        require(
            constant_difference(item.dom.min, 0) == 0,
            primitive,
            f"variable {item.var.name!r} of block {block.name!r} starts at {item.dom.min}; index maps count from zero",
        )
    top = _nest_of(block, primitive)
    require_own_elements(block, loops_around(block), primitive)
    kinds = {item.var: item.iter_type for item in block.iter_vars}
    by_initial: Mapping[Any, Any] = dict(
        zip(index_map.initial_indices, [item.var for item in block.iter_vars], strict=True)
    )
    extents = (
        new_extents
        if new_extents is not None
        else index_map.map_shape([item.dom.extent for item in block.iter_vars])
    )
    dtype = block.iter_vars[0].var.dtype if block.iter_vars else "int32"
    require(
        dtype == "int64" or all_held(extents),
        primitive,
        f"the map leads to {' x '.join(map(str, extents))} iterations, which {dtype} does not count; give block {block.name!r} int64"
        " variables",
    )
    new_vars, loops = [], []
    for position, (final, extent) in enumerate(zip(index_map.final_indices, extents, strict=True)):
        used = variables_in(substitute(final, by_initial))
        types = {kinds[var] for var in used if var in kinds}
        require(
            len(types) <= 1,
            primitive,
            f"final index {final} mixes data-parallel and reduction variables of block {block.name!r}",
        )
        size = tir.const(extent, dtype) if isinstance(extent, int) else tir.convert(extent)
        var = tir.Var(f"v{position}", dtype)
        new_vars.append(
            IterVar(
                tir.Range.from_min_extent(tir.const(0, dtype), size),
                var,
                types.pop() if types else IterVar.DataPar,
            )
        )
        loops.append((tir.Var(f"ax{position}", dtype), size))
    inverse = _inverse(index_map, block)
    old_values = dict(
        zip(
            [item.var for item in block.iter_vars],
            map_indices(inverse, [item.var for item in new_vars]),
            strict=True,
        )
    )
    at_loops = {item.var: var for item, (var, _) in zip(new_vars, loops, strict=True)}
    for item, final in zip(new_vars, index_map.final_indices, strict=True):
        # The inverse knows that a variable of one value has that value; it is renamed all the same.
        if final in by_initial:
            old_values[by_initial[final]] = item.var
    predicate: Any = substitute(block.predicate, _values_of_loops(block, old_values, at_loops))
    if _grows([item.dom.extent for item in block.iter_vars], extents):
        # The mapped space has points that no old one maps to; nothing runs there, and the block's own predicate is not asked.
        guard: Any = tir.const(True)
        ranges = {item.var: tir.cast(item.var.dtype, item.dom.extent) for item in block.iter_vars}
        for var, extent in ranges.items():
            value = substitute(old_values[var], at_loops)
            if not isinstance(value, tir.Var):
                guard = tir.operators.logical_and(guard, value < extent)
        for condition in _images_only(index_map, by_initial, old_values, at_loops, new_vars):
            guard = tir.operators.logical_and(guard, condition)
        predicate = tir.operators.logical_and(guard, predicate)
        if block.init is not None:
            _require_first_iteration(block, predicate, new_vars, at_loops)
    placeholder = LeafNode(tir.Evaluate(tir.const(0)))
    replace_node(top, placeholder)
    block.change(iter_vars=tuple(new_vars), iter_values=tuple(var for var, _ in loops), predicate=predicate)
    substitute_block(block, old_values)
    node: TreeNode = block
    for var, extent in reversed(loops):
        node = LoopNode(var, extent, node)
    replace_node(placeholder, node)


def _require_first_iteration(
    block: BlockNode, predicate: tir.PrimExpr, new_vars: Sequence[IterVar], at_loops: Mapping[Any, Any]
) -> None:
    """A reduction is initialised where its variables are zero: that must be one of its iterations, for each result."""
    analyzer = Analyzer()
    first: dict[Any, Any] = {}
    for item in new_vars:
        analyzer.bind(at_loops[item.var], item.dom)
        if item.iter_type == IterVar.CommReduce:
            first[at_loops[item.var]] = item.dom.min
    for clause in conjuncts(predicate):
        require(
            not mentions(clause, first) or analyzer.can_prove(substitute(clause, first)),
            "transform_block_layout",
            f"the first iteration of the reduction of block {block.name!r} may lie outside of {clause}, and initialises",
        )


def _images_only(
    index_map: IndexMap,
    by_initial: Mapping[Any, Any],
    old_values: Mapping[Any, Any],
    at_loops: Mapping[Any, Any],
    new_vars: Sequence[IterVar],
) -> list[tir.PrimExpr]:
    """What holds for points of the mapped space that are the image of what the inverse makes of them, and for no others; beside that
    the inverse stays below its extents.
    """
    analyzer = Analyzer()
    for item in new_vars:
        analyzer.bind(at_loops[item.var], item.dom)
    values = {var: substitute(old_values[var], at_loops) for var in by_initial.values()}
    conditions: list[Any] = [value >= 0 for value in values.values()]
    for item, final in zip(new_vars, index_map.final_indices, strict=True):
        image = substitute(final, {initial: values[var] for initial, var in by_initial.items()})
        conditions.append(tir.EQ(tir.cast(item.var.dtype, image), at_loops[item.var]))
    return [analyzer.simplify(item) for item in conditions if not analyzer.can_prove(item)]


def _values_of_loops(
    block: BlockNode, old_values: Mapping[Any, Any], at_loops: Mapping[Any, Any]
) -> dict[Any, Any]:
    """What the loops around a block were, in terms of the new ones; those that no variable is bound to run once."""
    values: dict[Any, Any] = {loop.var: loop.min for loop in loops_around(block)}
    for item, value in zip(block.iter_vars, block.iter_values, strict=True):
        loop_var = without_casts(value)
        if loop_var in values:
            values[loop_var] = tir.cast(loop_var.dtype, substitute(old_values[item.var], at_loops))
    return values


def _grows(old: Sequence[Any], new: Sequence[Any]) -> bool:
    """Whether a space of the new extents may be larger than one of the old."""
    total: Any = tir.const(1, "int64")
    other: Any = tir.const(1, "int64")
    for extent in old:
        total = total * tir.cast("int64", tir.convert(extent))
    for extent in new:
        other = other * tir.cast("int64", tir.convert(extent))
    return constant_difference(other, total) != 0


def _nest_of(block: BlockNode, primitive: str) -> TreeNode:
    """The outermost loop around a block; the nest must hold nothing else and iterate each variable by a loop of its own."""
    top: TreeNode = block
    for loop in reversed(loops_around(block)):
        require(
            loop.body is top, primitive, f"the loops around block {block.name!r} hold other blocks as well"
        )
        top = loop
    loops: dict[Any, LoopNode] = {loop.var: loop for loop in loops_around(block)}
    plain = set()
    for item, value in zip(block.iter_vars, block.iter_values, strict=True):
        loop_var = without_casts(value)
        own = loops.get(loop_var)
        if (
            own is not None
            and constant_difference(own.min, item.dom.min) == 0
            and constant_difference(own.extent, item.dom.extent) == 0
            and loop_var not in plain
        ):
            plain.add(loop_var)
            continue
        require(
            isinstance(value, tir.IntImm)
            and isinstance(item.dom.extent, tir.IntImm)
            and item.dom.extent.value == 1,
            primitive,
            f"variable {item.var.name!r} of block {block.name!r} is bound to {value}, not to a loop of its own over all its values",
        )
    require(
        all(
            isinstance(loop.extent, tir.IntImm) and loop.extent.value == 1
            for var, loop in loops.items()
            if var not in plain
        ),
        primitive,
        f"a loop around block {block.name!r} is bound to none of its variables",
    )
    return top


def _inverse(index_map: IndexMap, block: BlockNode) -> IndexMap:
    if isinstance(index_map.inverse_index_map, IndexMap):
        return index_map.inverse_index_map
    refused = f"transform_block_layout: the index map sends several points of the domain of block {block.name!r} to one place"
    analyzer = Analyzer()
    for var, item in zip(index_map.initial_indices, block.iter_vars, strict=True):
        analyzer.bind(var, item.dom)
    require_no_negative_index(index_map, analyzer, "transform_block_layout")
    try:
        inverse, _ = index_map.non_surjective_inverse([item.dom.extent for item in block.iter_vars])
    except IRError as error:
        raise ScheduleError(f"{refused}: {error}") from error
    restored = map_indices(inverse, list(index_map.final_indices))
    for var, value in zip(index_map.initial_indices, restored, strict=True):
        if not analyzer.can_prove_equal(value, var):
            raise ScheduleError(f"{refused}: {var} is not restored")
    return inverse
