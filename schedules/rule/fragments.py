"""How a group of tensor intrinsics holds matrices: layouts that descriptions say, and what a product is of matrices in memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from itertools import permutations
from typing import Any

from ir import tir
from ir.structural import structural_equal
from ir.tir import IndexMap
from ir.tir.buffer import decl_buffer
from ir.tir.stmt_functor import StmtExprMutator, loads_in, variables_in
from ir.tir.thread_axis import WARP_EXECUTION

from ..error import ScheduleError
from ..random_variable import BlockRV
from ..schedule import Schedule
from .tensorize import blockize_for


def written_scope(intrin_name: str) -> str:
    """The storage scope of what an intrinsic's description writes."""
    regions = _root(_described(intrin_name)).writes
    return str(regions[0].buffer.scope()) if regions else "global"


def held_layout(intrin_name: str, is_store: bool) -> IndexMap:
    """The indices of an element among what the lanes of a warp hold, by row and column of the tile that an intrinsic moves.

    Args:
        intrin_name: of an intrinsic that copies a tile.
        is_store: whether it copies from what lanes hold.

    Raises:
        ScheduleError: it copies no tile.
    """
    store = _copy_of(intrin_name)
    load = loads_in(store.value)[0]
    held, memory = (load, store) if is_store else (store, load)
    return IndexMap(list(memory.indices), list(held.indices))  # type: ignore[arg-type]


def tile_extents(intrin_name: str, is_store: bool) -> tuple[int, int]:
    """Rows and columns of the tile in memory that an intrinsic copies."""
    store = _copy_of(intrin_name)
    memory = store if is_store else loads_in(store.value)[0]
    rows, columns = memory.buffer.shape[-2:]
    return int(rows), int(columns)  # type: ignore[call-overload]


def cut_into_tiles(sch: Schedule, copy: BlockRV, intrin_name: str, fragments: tuple[str, int]) -> BlockRV:
    """A copy as a block for each tile, which an intrinsic moves; fragments lie one behind the other, each as the intrinsic holds it.

    Args:
        copy: from or to fragments.
        intrin_name: what moves a tile.
        fragments: the copy's side that is fragments.

    Raises:
        ScheduleError: the tile does not fit.
    """
    unit = blockize_for(sch, copy, intrin_name)
    if unit is None:
        raise ScheduleError(f"{intrin_name} does not fit the tile")
    sch.annotate(unit, WARP_EXECUTION, 1)
    is_store = fragments[0] == "read"
    rows, columns = tile_extents(intrin_name, is_store)
    sch.transform_layout(copy, fragments, by_tiles((rows, columns), held_layout(intrin_name, is_store)))
    return unit


def by_tiles(extents: tuple[int, int], layout: IndexMap) -> Callable[..., list[Any]]:
    """The layout of a matrix whose tiles lie one behind the other, each in the layout that is given."""
    rows, columns = extents

    def place(*indices: Any) -> list[Any]:
        *outer, i, j = indices
        return [*outer, i // rows, j // columns, *layout.map_indices([i % rows, j % columns])]

    return place


def described_in_memory(group: Mapping[str, str]) -> tir.TensorIntrin:
    """The intrinsic "compute" of a group with a description of matrices as they lie in memory, whatever lanes hold of them.

    Raises:
        ScheduleError: it takes matrices in other layouts than the others of the group load and store.
    """
    return _in_memory(*(group[role] for role in ("compute", "load_a", "load_b", "store")))


@lru_cache(maxsize=1024)
def _in_memory(compute: str, load_a: str, load_b: str, store: str) -> tir.TensorIntrin:
    intrin = tir.TensorIntrin.get(compute)
    assert intrin is not None
    copies = ((load_a, False), (load_b, False), (store, True))
    table = {}
    for buffer, copy in zip(intrin.desc.buffer_map.values(), copies, strict=True):
        shape, scope = tile_extents(*copy), buffer.scope()
        plain = decl_buffer(shape, buffer.dtype, buffer.name, scope=scope, offset_factor=1)
        table[buffer] = plain, held_layout(*copy)
    params = [table[intrin.desc.buffer_map[param]][0] for param in intrin.desc.params]
    return tir.TensorIntrin(tir.PrimFunc(params, _InMemory(table).visit(intrin.desc.body)), intrin.impl)


class _InMemory(StmtExprMutator):
    """Accesses what lanes hold by row and column."""

    def __init__(self, table: Mapping[tir.Buffer, tuple[tir.Buffer, IndexMap]]) -> None:
        super().__init__()
        self._held = table

    def _indices(self, buffer: tir.Buffer, indices: Any) -> tuple[tir.Buffer, list[Any]]:
        plain, layout = self._held[buffer]
        for order in permutations(variables_in(*indices), 2):
            found = layout.map_indices(list(order))
            if all(structural_equal(a, b) for a, b in zip(found, indices, strict=True)):
                return plain, list(order)
        raise ScheduleError(
            f"{buffer.name} of the product is accessed at {[str(item) for item in indices]}, which is not how its tile is loaded or stored"
        )

    def visit_BufferLoad(self, load: tir.BufferLoad) -> tir.PrimExpr:
        return tir.BufferLoad(*self._indices(load.buffer, load.indices))

    def visit_BufferStore(self, store: tir.BufferStore) -> tir.Stmt:
        buffer, indices = self._indices(store.buffer, store.indices)
        return tir.BufferStore(buffer, self.visit(store.value), indices)

    def visit_BufferRegion(self, region: tir.BufferRegion) -> tir.BufferRegion:
        plain = self._held[region.buffer][0]
        whole = [tir.Range(tir.const(0), extent) for extent in plain.shape]
        return tir.BufferRegion(plain, whole)


def _described(intrin_name: str) -> tir.PrimFunc:
    intrin = tir.TensorIntrin.get(intrin_name)
    assert intrin is not None
    return intrin.desc


def _root(func: tir.PrimFunc) -> tir.Block:
    assert isinstance(func.body, tir.BlockRealize)
    return func.body.block


def _copy_of(intrin_name: str) -> tir.BufferStore:
    """What a description of a copy does for each element."""
    found: list[Any] = []
    tir.post_order_visit(
        _described(intrin_name).body,
        lambda node: found.append(node) if isinstance(node, tir.BufferStore) else None,
    )
    if len(found) != 1 or len(loads_in(found[0].value)) != 1:
        raise ScheduleError(f"intrinsic {intrin_name!r} copies no tile")
    return found[0]  # type: ignore[no-any-return]
