"""What graph passes ask about PrimFuncs: reshapes, fusion kinds, layout-free transforms; and the memory that a program plans."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ... import dtype as dt
from ...arith.analyzer import Analyzer
from ...module import IRModule
from ...node import Visitor, remembered
from ...op import Op
from ...tir.expr import BufferLoad, FloorMod, IntImm, PrimExpr
from ...tir.function import PrimFunc
from ...tir.index_map import IndexMap
from ...tir.stmt import Block, BlockRealize, BufferStore, For
from ..expr import Call
from ..expr import DataTypeImm as RelaxDataType
from ..function import Function


class _Blocks(Visitor):
    """Blocks other than root ones, with the loops around each."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[Block, BlockRealize, list[For]]] = []
        self._loops: list[For] = []

    def visit_For(self, loop: For) -> None:
        self._loops.append(loop)
        self.visit(loop.body)
        self._loops.pop()

    def visit_BlockRealize(self, realize: BlockRealize) -> None:
        block = realize.block
        if block.iter_vars or not self._inner_blocks(block):
            self.found.append((block, realize, list(self._loops)))
        else:
            self.visit(block.body)

    def _inner_blocks(self, block: Block) -> bool:
        inner = _Blocks()
        inner.visit(block.body)
        return bool(inner.found)

    def visit_PrimExpr(self, expr: Any) -> None:
        """Expressions hold no blocks."""


def blocks_of(func: PrimFunc) -> list[tuple[Block, BlockRealize, list[For]]]:
    """(block, realization, loops around it) for the computing blocks of a PrimFunc."""
    visitor = _Blocks()
    visitor.visit(func.body)
    return visitor.found


@remembered
def has_reshape_pattern(func: PrimFunc) -> bool:
    """Whether a PrimFunc copies its one input to its one output in row-major order: a reshape, which needs no copy."""
    buffers = [func.buffer_map[param] for param in func.params if param in func.buffer_map]
    if len(buffers) < 2:
        return False
    source, target = buffers[0], buffers[-1]
    blocks = blocks_of(func)
    if len(blocks) != 1 or source.dtype != target.dtype:
        return False
    block = blocks[0][0]
    store = block.body
    if (
        not isinstance(store, BufferStore)
        or not isinstance(store.value, BufferLoad)
        or block.init is not None
    ):
        return False
    if store.buffer is not target or store.value.buffer is not source:
        return False
    analyzer = Analyzer()
    for iter_var in block.iter_vars:
        analyzer.bind(iter_var.var, iter_var.dom)
    if not analyzer.can_prove_equal(_size(source.shape), _size(target.shape)):
        return False
    before = _flat(_without_redundant_wrap(store.value.indices, source.shape, analyzer), source.shape)
    after = _flat(store.indices, target.shape)
    return bool(analyzer.can_prove_equal(before, after))


def _size(shape: Any) -> PrimExpr:
    total: PrimExpr = IntImm("int64", 1)
    for extent in shape:
        total = total * (extent if extent.dtype == "int64" else extent.astype("int64"))
    return total


def _without_redundant_wrap(indices: Any, shape: Any, analyzer: Any) -> list[PrimExpr]:
    """The indices with ``q % extent`` of the first axis as ``q``: among as many elements a quotient never exceeds the axis."""
    first, *rest = indices or [None]
    if isinstance(first, FloorMod) and analyzer.can_prove_equal(first.b, shape[0]):
        first = first.a
    return [first, *rest] if indices else []


def _flat(indices: Any, shape: Any) -> PrimExpr:
    position: PrimExpr = IntImm("int64", 0)
    for index, extent in zip(indices, shape, strict=True):
        wide = index if index.dtype == "int64" else index.astype("int64")
        size = extent if extent.dtype == "int64" else extent.astype("int64")
        position = position * size + wide
    return position


def suggest_layout_transforms(
    func: PrimFunc, write_buffer_transforms: list[IndexMap | Callable[..., Any]]
) -> dict[Block, dict[Any, IndexMap]]:
    """Layout transforms of the blocks and buffers of ``func`` that let its outputs have the given ones.

    A block that writes an output elementwise along its spatial axes takes over the output's transform as its own, and every
    buffer that it reads by a permutation of those axes follows. Blocks for which this cannot be done are left out.

    Returns:
        Per block, a map from the block itself (its iteration space) and from buffers to index maps.
    """
    maps = [
        item if isinstance(item, IndexMap) else IndexMap.from_func(item) for item in write_buffer_transforms
    ]
    buffers = [func.buffer_map[param] for param in func.params if param in func.buffer_map]
    outputs = dict(zip([id(buffer) for buffer in buffers[-len(maps) :]], maps, strict=True)) if maps else {}
    result: dict[Block, dict[Any, IndexMap]] = {}
    for block, _, _ in blocks_of(func):
        written = [region.buffer for region in block.writes]
        if len(written) != 1 or id(written[0]) not in outputs:
            continue
        wanted = outputs[id(written[0])]
        store_axes = [index_range.min for index_range in block.writes[0].region]
        spatial = [iter_var.var for iter_var in block.iter_vars]
        if len(store_axes) != len(spatial) or any(
            a is not b for a, b in zip(store_axes, spatial, strict=True)
        ):
            continue
        if len(wanted.initial_indices) != len(spatial):
            continue
        transforms: dict[Any, IndexMap] = {block: wanted, written[0]: wanted}
        for region in block.reads:
            read_axes = [index_range.min for index_range in region.region]
            if len(read_axes) == len(spatial) and all(
                a is b for a, b in zip(read_axes, spatial, strict=True)
            ):
                transforms[region.buffer] = wanted
        result[block] = transforms
    return result


def estimate_memory_usage(mod: IRModule | Function) -> str:
    """A report of the memory that ``alloc_tensor`` and ``alloc_storage`` calls ask for, per function.

    Dynamic sizes are counted, not summed. Of a function that allocates storages, it says by how much planning them reduced
    the memory.
    """
    functions = (
        {"function": mod}
        if isinstance(mod, Function)
        else {var.name_hint: func for var, func in mod.functions.items() if isinstance(func, Function)}
    )
    lines = ["Memory usage estimation:"]
    for name, func in functions.items():
        counts = _MemoryCounts()
        counts.visit(func)
        lines += counts.report(name)
    return "\n".join(lines)


class _MemoryCounts(Visitor):
    def __init__(self) -> None:
        super().__init__()
        self.tensors = self.tensor_bytes = self.dynamic_tensors = 0
        self.storages = self.storage_bytes = self.dynamic_storages = 0

    def visit_Call(self, call: Any) -> None:
        if not isinstance(call, Call) or not isinstance(call.op, Op):
            return
        if call.op.name == "relax.builtin.alloc_tensor":
            self._tensor(call.args[0], call.args[1])
        elif call.op.name == "relax.memory.alloc_tensor":
            self._tensor(call.args[2], call.args[3])
        elif call.op.name == "relax.memory.alloc_storage":
            size = call.args[0].values[0]  # type: ignore[attr-defined]
            if isinstance(size, IntImm):
                self.storages += 1
                self.storage_bytes += size.value
            else:
                self.dynamic_storages += 1

    def _tensor(self, shape: Any, dtype: Any) -> None:
        values = getattr(shape, "values", None)
        if (
            values is not None
            and all(isinstance(dim, IntImm) for dim in values)
            and isinstance(dtype, RelaxDataType)
        ):
            self.tensors += 1
            self.tensor_bytes += int(np.prod([dim.value for dim in values], dtype="int64")) * dt.bytes_of(
                dtype.value
            )
        else:
            self.dynamic_tensors += 1

    def visit_PrimExpr(self, expr: Any) -> None:
        """No calls of Relax in there."""

    def visit_StructInfo(self, info: Any) -> None:
        """No calls in there."""

    def report(self, name: str) -> list[str]:
        lines = [
            f" * Function {name}:",
            f"   - {self.tensors} tensors of static size, {self.tensor_bytes} bytes"
            + (f"; {self.dynamic_tensors} of dynamic size" if self.dynamic_tensors else ""),
        ]
        if self.storages or self.dynamic_storages:
            saved = 100 * (1 - self.storage_bytes / self.tensor_bytes) if self.tensor_bytes else 0.0
            lines.append(
                f"   - {self.storages} planned storages, {self.storage_bytes} bytes ({saved:.1f} % less)"
                + (f"; {self.dynamic_storages} of dynamic size" if self.dynamic_storages else "")
            )
        return lines
