"""SplitLayoutRewritePreproc: take the packing of weights out of tuned kernels, so that it happens once at build time.

It may have several steps: weights that are transformed (of a convolution by Winograd's algorithm), and then packed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...expr import GlobalVar
from ...module import IRModule
from ...node import Visitor, post_order_visit
from ...tir.buffer import Buffer
from ...tir.function import PrimFunc
from ...tir.kernel_attributes import LAYOUT_REWRITE_PREPROC
from ...tir.stmt import Block, BlockRealize, SeqStmt, Stmt, seq
from ...transform import ModulePass, PassContext
from ..block_builder import BlockBuilder
from ..expr import Call, Expr, ShapeExpr, Tuple, TupleGetItem, is_call_to
from ..function_signature import MapCall, reference_to, replace_calls
from ..struct_info import TensorStructInfo, TupleStructInfo
from .grouping import NameTable


class _Annotations(Visitor):
    """Whether each of the blocks in a statement is annotated as packing."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[bool] = []

    def visit_Block(self, block: Block) -> None:
        self.found.append(bool(block.annotations.get(LAYOUT_REWRITE_PREPROC)))
        self.generic_visit(block)

    def visit_PrimExpr(self, expr: Any) -> None:
        """Expressions hold no blocks."""


def _is_preproc(stmt: Stmt) -> bool:
    annotations = _Annotations()
    annotations.visit(stmt)
    return bool(annotations.found) and all(annotations.found)


def buffers_of(stmt: Stmt) -> tuple[list[Buffer], list[Buffer]]:
    """The buffers that a statement loads from and stores to."""
    loads: dict[Buffer, None] = {}
    stores: dict[Buffer, None] = {}

    def visit(node: Any) -> None:
        kind = type(node).__name__
        if kind == "BufferLoad":
            loads.setdefault(node.buffer)
        elif kind == "BufferStore":
            stores.setdefault(node.buffer)

    post_order_visit(stmt, visit)
    return list(loads), list(stores)


@dataclass
class SplitKernel:
    """A kernel in two parts.

    Attributes:
        prepack: from original operands (numbers in ``sources``) to packed ones, in one step or several.
        main: the kernel, with the packed operands in place of the originals.
        sources: the operand that each packed one replaces.
    """

    prepack: PrimFunc
    main: PrimFunc
    sources: list[int]
    packed: list[Buffer]


def split_kernel(func: PrimFunc) -> SplitKernel | None:
    """Split a PrimFunc at its layout-rewriting blocks; None when it has none that can be taken out."""
    body = func.body
    if not isinstance(body, BlockRealize) or body.block.iter_vars:
        return None
    root = body.block
    parts = list(root.body.seq) if isinstance(root.body, SeqStmt) else [root.body]
    first = [part for part in parts if _is_preproc(part)]
    rest = [part for part in parts if part not in first]
    if not first or not rest:
        return None
    operands = [func.buffer_map.get(param) for param in func.params]
    used_later = {buffer for part in rest for buffers in buffers_of(part) for buffer in buffers}
    source_of: dict[Buffer, int] = {}  # of what is the last of its steps so far
    between: list[Buffer] = []
    for part in first:
        loads, stores = buffers_of(part)
        if len(stores) != 1 or len(loads) != 1 or stores[0] not in root.alloc_buffers:
            return None
        if loads[0] in used_later:
            return None  # the kernel reads the operand in both layouts
        if loads[0] in source_of:
            between.append(loads[0])
            source = source_of.pop(loads[0])
        elif loads[0] in operands:
            source = operands.index(loads[0])
        else:
            return None
        source_of[stores[0]] = source
    packed, sources = list(source_of), list(source_of.values())
    if len(set(sources)) != len(sources):
        return None
    allocated = tuple(buffer for buffer in root.alloc_buffers if buffer not in (*packed, *between))
    main_root = root.replace(body=seq(*rest), alloc_buffers=allocated)
    params = [
        packed[sources.index(index)] if index in sources else param if operand is None else operand
        for index, (param, operand) in enumerate(zip(func.params, operands, strict=True))
    ]
    main = PrimFunc(params, body.replace(block=main_root), func.ret_type, None, func.attrs)
    pack_root = Block((), (), (), "root", seq(*first), None, between)
    pack_params = [operand for index, operand in enumerate(operands) if index in sources]
    ordered = sorted(range(len(sources)), key=lambda i: sources[i])
    prepack = PrimFunc(
        [*pack_params, *[packed[i] for i in ordered]],
        BlockRealize((), True, pack_root),
        None,
        None,
        {"tir.noalias": True, "tir.is_scheduled": True},
    )
    return SplitKernel(prepack, main, [sources[i] for i in ordered], [packed[i] for i in ordered])


def _calls(kernel: SplitKernel, prepack: GlobalVar, main: GlobalVar) -> MapCall:
    """What calls of a split kernel become: one that packs, and one of the rest."""

    def make(builder: BlockBuilder, call: Call) -> Expr:
        if not is_call_to(call, "relax.call_tir") or not isinstance(call.args[1], Tuple):
            return call
        fields = list(call.args[1].fields)
        infos = [TensorStructInfo(ShapeExpr(buffer.shape), buffer.dtype) for buffer in kernel.packed]
        info = infos[0] if len(infos) == 1 else TupleStructInfo(infos)
        originals = Tuple([fields[index] for index in kernel.sources])
        packed = builder.emit(Call(call.op, (prepack, originals), None, [info], None, info))
        for number, index in enumerate(kernel.sources):
            fields[index] = packed if len(infos) == 1 else builder.emit(TupleGetItem(packed, number))
        args = (main, Tuple(fields), *call.args[2:])
        return call.replace(args=args, struct_info_=call.struct_info_)  # type: ignore[no-any-return]

    return make


@dataclass(frozen=True)
class SplitLayoutRewritePreproc(ModulePass):
    """Split kernels whose schedule rewrites an operand's layout into the rewriting and the rest.

    Before::

        y = R.call_tir(cls.matmul, (x, w), out_sinfo=R.Tensor((16, 16), "float32"))

    After (constant folding then packs the weight at build time)::

        lv = R.call_tir(cls.matmul_weight_prepack, (w,), out_sinfo=R.Tensor((4, 16, 4), "float32"))
        y = R.call_tir(cls.matmul_prepacked, (x, lv), out_sinfo=R.Tensor((16, 16), "float32"))
    """

    def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """The module with split kernels."""
        names = NameTable(mod)
        calls: dict[str, MapCall] = {}
        functions: dict[GlobalVar, Any] = dict(mod.functions)
        for var, func in mod.functions.items():
            kernel = split_kernel(func) if isinstance(func, PrimFunc) else None
            if kernel is None:
                continue
            prepack = reference_to(names.fresh(f"{var.name_hint}_weight_prepack"), kernel.prepack)
            main = reference_to(names.fresh(f"{var.name_hint}_prepacked"), kernel.main)
            functions[prepack] = kernel.prepack
            functions[main] = kernel.main.without_attr("global_symbol")
            if "global_symbol" not in func.attrs:
                del functions[var]
            calls[var.name_hint] = _calls(kernel, prepack, main)
        return replace_calls(mod.replace(functions=functions), calls) if calls else mod
