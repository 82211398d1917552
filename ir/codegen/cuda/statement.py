"""Statements of kernels: threads, loops, conditions, memory."""

from __future__ import annotations

from math import gcd

from ... import dtype as dt
from ...target.gpu_facts import ACCESS_BYTES
from ...tir import expr as E
from ...tir import stmt as S
from ...tir.analysis.reads_memory import reads_memory
from ...tir.effects import has_effect
from ...tir.expr import Range
from ...tir.intrinsic.declaration import CallEffectKind, effect_of
from ...tir.operators import const
from ...type import PointerType, PrimType
from ..error import CodegenError
from .emitter import KernelEmitter, prints_statement
from .expression import bound
from .memory import store
from .pairs import store_in_pairs
from .tensor_cores import FRAGMENTS, declare_fragments
from .text import UNARY, Text, binary
from .types import memory_type

_SHARED_ALIGNMENT = ACCESS_BYTES


@prints_statement(S.SeqStmt)
def _seq(emitter: KernelEmitter, node: S.SeqStmt) -> None:
    for item in node.seq:
        emitter.statement(item)


@prints_statement(S.AttrStmt)
def _attribute(emitter: KernelEmitter, node: S.AttrStmt) -> None:
    if node.attr_key == "virtual_thread":
        raise CodegenError(
            "virtual threads are not threads of a kernel; run ir.tir.transform.InjectVirtualThread first"
        )
    if node.thread is not None:
        _thread(emitter, node.thread, node.value)
    emitter.statement(node.body)


def _thread(emitter: KernelEmitter, axis: E.IterVar, extent: E.PrimExpr) -> None:
    emitter.analyzer.bind(axis.var, Range.from_min_extent(const(0, axis.var.dtype), extent))
    if axis.var in emitter.used:
        emitter.declare(axis.var, axis.thread_tag)


@prints_statement(S.DeclBuffer)
def _declaration(emitter: KernelEmitter, node: S.DeclBuffer) -> None:
    emitter.statement(node.body)


# -- values ------------------------------------------------------------------------
@prints_statement(S.BufferStore)
def _store(emitter: KernelEmitter, node: S.BufferStore) -> None:
    if not store_in_pairs(emitter, node):
        store(emitter, node.buffer, node.indices, node.value, node.predicate)


@prints_statement(S.LetStmt)
def _let(emitter: KernelEmitter, node: S.LetStmt) -> None:
    if node.var.dtype == "handle":
        _pointer(emitter, node.var, node.value)
        emitter.statement(node.body)
        return
    lanes = bound(emitter, node.var, node.value)
    emitter.variables[node.var] = [emitter.kept(lane, node.var.dtype, node.var.name) for lane in lanes]
    if dt.is_index(node.var.dtype) and emitter.is_index(node.value):
        emitter.analyzer.bind(node.var, node.value)
    emitter.statement(node.body)


def _pointer(emitter: KernelEmitter, var: E.Var, value: E.PrimExpr) -> None:
    """A variable that is bound to an address: what is there has the type that the variable's annotation says.

    Raises:
        CodegenError: it has none.
    """
    annotation = var.type_annotation
    if not isinstance(annotation, PointerType) or not isinstance(annotation.element_type, PrimType):
        raise CodegenError(f"{var.name} is bound to an address, and does not say of which elements")
    dtype = annotation.element_type.dtype
    emitter.type_of(dtype)
    address, name, type_ = emitter.scalar(value), emitter.fresh(var.name), memory_type(dtype)
    emitter.line(f"{type_}* const {name} = reinterpret_cast<{type_}*>({address.code});")
    emitter.variables[var] = [Text(name)]
    emitter.aligned[var] = _alignment(emitter, value)


def _alignment(emitter: KernelEmitter, address: E.PrimExpr) -> int:
    """Bytes to which an address is aligned, as far as is known; 0 where it is not."""
    load = address.args[0] if isinstance(address, E.Call) and address.args else None
    if not isinstance(load, E.BufferLoad) or not isinstance(load.indices[0], E.IntImm):
        return 0
    offset = load.indices[0].value * dt.bytes_of(load.buffer.dtype)
    return gcd(emitter.aligned.get(load.buffer.data, 0), offset)


@prints_statement(S.Evaluate)
def _evaluate(emitter: KernelEmitter, node: S.Evaluate) -> None:
    value = node.value
    if isinstance(value, E.Call) and getattr(value.op, "name", "") == "tir.ret":
        emitter.line("return;")
    elif isinstance(value, E.Call) and effect_of(value) > CallEffectKind.READ_STATE:
        emitter.whole = value
        for lane in emitter.data(value):
            emitter.line(f"{lane.code};")
    elif has_effect(value):  # of which the value is nothing to C++
        for lane in emitter.data(value):
            emitter.line(f"(void){lane.within(UNARY)};")


@prints_statement(S.AssertStmt)
def _assert(emitter: KernelEmitter, node: S.AssertStmt) -> None:
    condition = emitter.index(node.condition)
    with emitter.block(f"if (!{condition.within(1)})"):
        emitter.line("__trap();")
    emitter.statement(node.body)


# -- control -----------------------------------------------------------------------
@prints_statement(S.For)
def _for(emitter: KernelEmitter, node: S.For) -> None:
    if node.kind in (S.ForKind.PARALLEL, S.ForKind.THREAD_BINDING, S.ForKind.VECTORIZED):
        raise CodegenError(
            f"loop {node.loop_var.name} of a kernel is {node.kind.name}; lower the function with ir.tir.lower first"
        )
    type_ = emitter.type_of(node.loop_var.dtype)
    start, extent = emitter.index(node.min), emitter.index(node.extent)
    name = emitter.fresh(node.loop_var.name)
    is_from_zero = isinstance(node.min, E.IntImm) and node.min.value == 0
    end = extent if is_from_zero else binary("+", start, extent)
    if not is_from_zero or reads_memory(node.extent):  # which the body may change
        end = emitter.kept(end, node.loop_var.dtype, f"{name}_end")
    emitter.variables[node.loop_var] = [Text(name)]
    emitter.analyzer.bind(node.loop_var, Range.from_min_extent(node.min, node.extent))
    if node.kind == S.ForKind.UNROLLED:
        emitter.line("#pragma unroll")
    with emitter.block(f"for ({type_} {name} = {start.code}; {name} < {end.within(4)}; ++{name})"):
        emitter.statement(node.body)


@prints_statement(S.While)
def _while(emitter: KernelEmitter, node: S.While) -> None:
    with emitter.block("while (true)"):
        condition = emitter.index(node.condition)
        emitter.line(f"if (!{condition.within(1)}) break;")
        emitter.statement(node.body)


@prints_statement(S.IfThenElse)
def _if(emitter: KernelEmitter, node: S.IfThenElse) -> None:
    with emitter.block(f"if ({emitter.index(node.condition).code})"):
        emitter.statement(node.then_case)
    if node.else_case is not None:
        with emitter.block("else"):
            emitter.statement(node.else_case)


# -- memory ------------------------------------------------------------------------
@prints_statement(S.Allocate)
def _allocate(emitter: KernelEmitter, node: S.Allocate) -> None:
    scope = getattr(node.buffer_var.type_annotation, "storage_scope", "") or "global"
    name = emitter.fresh(node.buffer_var.name)
    emitter.variables[node.buffer_var] = [Text(name)]
    emitter.type_of(node.dtype)
    (extent,) = node.extents or (const(1),)
    alignment = emitter.alignments.get(node.buffer_var, 0)
    if scope.startswith(FRAGMENTS):
        declare_fragments(emitter, node, name, scope)
    elif scope == "shared.dyn":
        _dynamic(emitter, node, name)
    elif not isinstance(extent, E.IntImm):
        raise CodegenError(
            f"allocation {node.buffer_var.name} of a kernel has {extent} elements; their number must be constant, as that of the records"
            " by which a row is sorted: give the extent a value (BindSymbolicVars), or allocate the buffer around the kernel"
        )
    else:
        count = max(1, extent.value * dt.lanes(node.dtype))
        if scope.startswith("shared"):
            alignment = max(alignment, _SHARED_ALIGNMENT)
            emitter.aligned[node.buffer_var] = alignment
            emitter.line(f"__shared__ __align__({alignment}) {memory_type(node.dtype)} {name}[{count}];")
        elif scope == "local":
            aligned = f"__align__({alignment}) " if alignment else ""
            emitter.line(f"{aligned}{memory_type(node.dtype)} {name}[{count}];")
        else:
            raise CodegenError(
                f"allocation {node.buffer_var.name} of a kernel is of scope {scope}; a thread allocates local and shared memory"
            )
    emitter.statement(node.body)


def _dynamic(emitter: KernelEmitter, node: S.Allocate, name: str) -> None:
    """Shared memory whose size the launch says."""
    alignment = max(
        128,
        int(
            getattr(
                node.annotations.get("data_alignment", 0), "value", node.annotations.get("data_alignment", 0)
            )
        ),
    )
    emitter.aligned[node.buffer_var] = alignment
    bytes_name = emitter.fresh("dynamic_shared_memory")
    emitter.line(f"extern __shared__ __align__({alignment}) unsigned char {bytes_name}[];")
    type_ = memory_type(node.dtype)
    emitter.line(f"{type_}* const {name} = reinterpret_cast<{type_}*>({bytes_name});")
