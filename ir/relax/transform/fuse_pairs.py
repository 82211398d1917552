"""FusePairs: a kernel and the one that alone reads its result become one, where that result would not stay in the caches between them.

What depthwise separable networks (MobileNet, EfficientNet) are made of are convolutions over channels and convolutions over windows by
turns, with little to compute for each number. Where the numbers between two of them outgrow the last cache, they cost more than the
arithmetic. As one kernel, both can be computed tile by tile (the schedule rule ``PairTiling``); as two nests they stay what they were.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

from ... import dtype as dt
from ...expr import GlobalVar
from ...module import IRModule
from ...target.target import Target
from ...tir.buffer import Buffer
from ...tir.expr import IntImm, IterVar
from ...tir.function import PrimFunc
from ...tir.stmt import Block, BufferStore
from ...tir.stmt_functor import loads_in, post_order_visit, variables_in
from ...transform import ModulePass, PassContext
from ..analysis.binding import use_counts
from ..analysis.memory import MemoryAnalysis
from ..expr import Call, DataflowBlock, DataflowVar, Expr, Tuple, Var, VarBinding, is_call_to
from ..function import Function
from ..struct_info import TensorStructInfo
from .fuse_tir import FuseTIR, root_block
from .grouping import Group, GroupRewriter, NameTable, leaves, op_name


@dataclass(frozen=True)
class FusePairs(ModulePass):
    """Merge a convolution over channels (1 x 1) and one over windows (depthwise), in either order, where what is between them is large.

    Runs behind FuseTIR. Both kernels have one reduction, over channels for all filters or over a window for each element; the second
    alone reads the result of the first, once; extents are known, and there is one data type. The result of the first does not fit the last
    caches of the target, and the weights of both fit half of the second cache, where they stay while tiles pass.

    Before::

        with R.dataflow():
            lv = R.call_tir(cls.conv2d_relu, (x, w0), R.Tensor((32, 112, 112, 96), "float32"))
            gv = R.call_tir(cls.depthwise, (lv, w1), R.Tensor((32, 56, 56, 96), "float32"))
            R.output(gv)

    After::

        with R.dataflow():
            gv = R.call_tir(cls.fused_conv2d_relu_depthwise, (x, w0, w1), R.Tensor((32, 56, 56, 96), "float32"))
            R.output(gv)

    Args:
        min_bytes: merge what has larger results between them; 0 takes the last caches of the current target. Without a target, and for a
            GPU, nothing is merged.
    """

    min_bytes: int = 0

    def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """The module with merged kernels."""
        target = Target.current(allow_none=True)
        if target is None or target.is_gpu:
            return mod
        sockets = -(-target.num_cores // max(1, target.l3_cache_cores))
        finder = _Finder(mod, self.min_bytes or target.l3_cache_bytes * sockets, target.l2_cache_bytes // 2)
        result, names = mod.clone(), NameTable(mod)
        changed = False
        for var, func in list(mod.functions.items()):
            if not isinstance(func, Function) or "Codegen" in func.attrs:
                continue
            groups = finder.pairs_of(func)
            if groups:
                changed = True
                result.functions[var] = GroupRewriter(result, groups, func, names).visit_expr(func)
        return FuseTIR()(result) if changed else mod


class _Finder:
    """Finds the pairs of a module's functions."""

    def __init__(self, mod: IRModule, min_bytes: int, weight_bytes: int) -> None:
        self._mod = mod
        self._memory = MemoryAnalysis(mod)
        self._min_bytes, self._weight_bytes = min_bytes, weight_bytes

    def pairs_of(self, func: Function) -> list[Group]:
        """Disjoint pairs, the first ones of a chain first."""
        counts, aliases = use_counts(func), self._memory.aliases(func)
        found: list[Group] = []
        for block in func.body.blocks:
            if not isinstance(block, DataflowBlock):
                continue
            made: dict[Var, VarBinding] = {}
            for binding in block.bindings:
                if not isinstance(binding, VarBinding) or not is_call_to(binding.value, "relax.call_tir"):
                    continue
                first = self._partner(binding.value, made, counts)  # type: ignore[arg-type]
                stays = aliases.is_written(binding.var, *leaves(binding.value))
                if first is not None and not stays and not aliases.is_written(*leaves(first.value)):
                    del made[first.var]
                    name = f"fused_{_name_of(first)}_{_name_of(binding)}"
                    found.append(Group([first, binding], name, {"Primitive": True}))
                elif isinstance(binding.var, DataflowVar):
                    made[binding.var] = binding
        return found

    def _partner(self, call: Call, made: dict[Var, VarBinding], counts: dict[Var, int]) -> VarBinding | None:
        """The kernel with which a call is merged: it makes the image of a convolution, for this call alone."""
        kernel = self._kernel_of(call)
        second = _convolution_of(kernel) if kernel is not None else None
        if kernel is None or second is None or not isinstance(call.args[1], Tuple):
            return None
        for operand, between in zip(call.args[1].fields, _buffers(kernel), strict=False):
            first = made.get(operand) if isinstance(operand, Var) and counts.get(operand) == 1 else None
            if first is None or not _is_only_image(kernel, second, between):
                continue
            producer = self._kernel_of(first.value)
            one = _convolution_of(producer) if producer is not None else None
            if producer is None or one is None or one.is_over_channels == second.is_over_channels:
                continue
            weights = _bytes_of(one.weights) + _bytes_of(second.weights)
            dtypes = {buffer.dtype for func in (producer, kernel) for buffer in _buffers(func)}
            if len(dtypes) == 1 and _bytes_of(between) > self._min_bytes and weights <= self._weight_bytes:
                return first
        return None

    def _kernel_of(self, call: Expr) -> PrimFunc | None:
        """The kernel of a call without scalar arguments, with one result, and of known extents."""
        kernel = call.args[0] if isinstance(call, Call) and len(call.args) == 2 else None
        found = self._mod[kernel] if isinstance(kernel, GlobalVar) and kernel in self._mod else None
        if not isinstance(found, PrimFunc) or not isinstance(call, Call):
            return None
        is_single = isinstance(call.sinfo_args[0], TensorStructInfo)
        is_static = all(isinstance(extent, IntImm) for buffer in _buffers(found) for extent in buffer.shape)
        return found if is_single and is_static and "tir.is_scheduled" not in found.attrs else None


@dataclass(frozen=True)
class _Convolution:
    """The only reduction of a kernel: a sum of products of an image and weights."""

    block: Block
    image: Buffer
    weights: Buffer
    is_over_channels: bool
    """Whether it sums over channels for each filter, or over a window for each element."""


def _convolution_of(func: PrimFunc) -> _Convolution | None:
    """The convolution of a kernel, if it is 1 x 1 or depthwise and nothing else is reduced there."""
    reductions = [block for block in _blocks(func) if block.init is not None]
    store = reductions[0].body if len(reductions) == 1 else None
    if not isinstance(store, BufferStore):
        return None
    (block,) = reductions
    wide = {
        item.var: item.iter_type
        for item in block.iter_vars
        if not (isinstance(item.dom.extent, IntImm) and item.dom.extent.value == 1)
    }
    spatial = {var for var, kind in wide.items() if kind == IterVar.DataPar}
    loads = [load for load in loads_in(store.value) if load.buffer is not store.buffer]
    if len(loads) != 2:
        return None
    used = [{var for index in load.indices for var in variables_in(index)} & spatial for load in loads]
    if len(used[0]) == len(used[1]):
        return None
    image, weights = loads if len(used[0]) > len(used[1]) else loads[::-1]
    windows = [index for index in image.indices if len(set(variables_in(index)) & set(wide)) > 1]
    is_over_channels = max(used, key=len) != spatial
    if is_over_channels == bool(windows):
        return None  # windows of all channels, or elementwise
    return _Convolution(block, image.buffer, weights.buffer, is_over_channels)


def _is_only_image(func: PrimFunc, convolution: _Convolution, buffer: Buffer) -> bool:
    """Whether a kernel uses a buffer for the image of its convolution only, as it is or padded."""
    readers = [block for block in _blocks(func) if any(region.buffer is buffer for region in block.reads)]
    if len(readers) != 1:
        return False
    (reader,) = readers
    return buffer is convolution.image or any(region.buffer is convolution.image for region in reader.writes)


def _blocks(func: PrimFunc) -> list[Block]:
    """The blocks of a kernel below its root."""
    root, found = root_block(func), []

    def visit(node: Any) -> None:
        if isinstance(node, Block) and node is not root:
            found.append(node)

    post_order_visit(func.body, visit)
    return found


def _buffers(func: PrimFunc) -> list[Buffer]:
    """What a kernel takes, in order, its results last."""
    return [func.buffer_map[param] for param in func.params if param in func.buffer_map]


def _bytes_of(buffer: Buffer) -> int:
    extents: list[int] = [extent.value for extent in buffer.shape if isinstance(extent, IntImm)]
    return prod(extents) * dt.bytes_of(buffer.dtype)


def _name_of(binding: VarBinding) -> str:
    return op_name(binding.value).removeprefix("fused_")
