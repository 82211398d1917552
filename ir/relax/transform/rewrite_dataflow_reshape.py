"""RewriteDataflowReshape: a kernel that only renumbers elements becomes a reshape, which copies nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...arith import Analyzer
from ...expr import GlobalVar
from ...module import IRModule
from ...op import Op
from ...tir import Block, BlockRealize, BufferLoad, BufferStore, For, PrimFunc, Range, SeqStmt
from ...tir import const as tir_const
from ...transform import PassContext
from ..expr import Call, Constant, Function, ShapeExpr, Var
from ..struct_info import TensorStructInfo, shape_of
from .binding_rewriter import BindingRewriter, is_call_to
from .function_pass import FunctionPass


def _only_block(func: PrimFunc) -> Block | None:
    """The one block of a function besides its root."""
    body: Any = func.body
    if isinstance(body, BlockRealize) and not body.block.iter_vars:
        if body.block.alloc_buffers:
            return None
        body = body.block.body
    while isinstance(body, For):
        body = body.body
    if isinstance(body, SeqStmt) or not isinstance(body, BlockRealize):
        return None
    return body.block


def _flat_index(indices: Any, shape: Any) -> Any:
    offset: Any = None
    for index, extent in zip(indices, shape, strict=True):
        index, extent = index.astype("int64"), extent.astype("int64")
        offset = index if offset is None else offset * extent + index
    return tir_const(0, "int64") if offset is None else offset


def has_reshape_pattern(func: PrimFunc) -> bool:
    """Whether a PrimFunc of one input and one output copies every element to the same flat position."""
    handles = [param for param in func.params if param in func.buffer_map]
    if len(handles) != 2 or len(func.params) != 2:
        return False
    source, target = (func.buffer_map[handle] for handle in handles)
    if source.dtype != target.dtype:
        return False
    block = _only_block(func)
    if block is None or block.init is not None or not isinstance(block.body, BufferStore):
        return False
    store, load = block.body, block.body.value
    if not isinstance(load, BufferLoad) or load.buffer is not source or store.buffer is not target:
        return False
    analyzer = Analyzer()
    for item in block.iter_vars:
        analyzer.bind(item.var, Range.from_min_extent(item.dom.min, item.dom.extent))
    difference = _flat_index(store.indices, target.shape) - _flat_index(load.indices, source.shape)
    return bool(analyzer.can_prove_equal(difference, 0))


class _Rewriter(BindingRewriter):
    def __init__(self, mod: IRModule) -> None:
        super().__init__(mod)
        self._is_reshape: dict[str, bool] = {}

    def visit_call(self, var: Var, call: Call) -> None:
        self.bind(var, self._reshape(call) or call)

    def _reshape(self, call: Call) -> Call | None:
        if not self.in_dataflow or not is_call_to(call, "relax.call_tir") or len(call.args) > 2:
            return None
        fields = getattr(call.args[1], "fields", ())
        info = call.sinfo_args[0]
        if len(fields) != 1 or not isinstance(info, TensorStructInfo) or not isinstance(fields[0], Var | Constant):
            return None
        kernel = call.args[0]
        if not isinstance(kernel, GlobalVar) or self.mod is None:
            return None
        found = self._is_reshape.get(kernel.name_hint)
        if found is None:
            func = self.mod[kernel]
            found = self._is_reshape[kernel.name_hint] = isinstance(func, PrimFunc) and has_reshape_pattern(func)
        shape = shape_of(info)
        if not found or shape is None:
            return None
        return Call(Op.get("relax.reshape"), (fields[0], ShapeExpr(shape.values)), None, None, call.span, info)


@dataclass(frozen=True)
class RewriteDataflowReshape(FunctionPass):
    """Replace ``call_tir`` of kernels that copy elements in order by ``R.reshape``, which is a view when the program runs.

    Before: ``y = R.call_tir(cls.flatten, (x,), out_sinfo=R.Tensor((1, 12), "float32"))``

    After: ``y = R.reshape(x, R.shape([1, 12]))``
    """

    def transform_function(self, func: Function, mod: IRModule, ctx: PassContext) -> Function:
        """The function with views."""
        return _Rewriter(mod).rewrite(func)
