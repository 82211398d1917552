"""The functions of the namespace ``T`` that declare and emit: buffers, functions, blocks, loops, scopes, stores."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ... import dtype as dt
from ...error import IRTypeError, IRValueError
from ...target.target import Target
from ...tir import stmt as S
from ...tir.buffer import Buffer
from ...tir.expr import BufferLoad, Call, CommReducer, IntImm, IterVar, PrimExpr, Range, Var
from ...tir.expr import (
    Let as _LetNode,
)
from ...tir.index_map import IndexMap
from ...tir.op import call_intrin
from ...tir.operators import as_condition, const, convert, match_dtypes
from ..regions import extent_between
from . import tir_frames as F
from .core import IRBuilder
from .tir_access import as_region, as_shape, check_match, declare, make_store, region_as_load, regions

# ---- buffers -----------------------------------------------------------------------------------------------------


def match_buffer(
    param: Any,
    shape: Any = None,
    dtype: str = "float32",
    data: Any = None,
    strides: Any = None,
    elem_offset: Any = None,
    scope: str = "global",
    align: int = -1,
    offset_factor: int = 0,
    buffer_type: str = "default",
    axis_separators: Any = None,
) -> Buffer:
    """A buffer for a handle parameter, or another view of a region inside a block."""
    builder = IRBuilder.current()
    if shape is None:
        if isinstance(param, BufferLoad | S.BufferRegion):
            region = as_region(param)
            dtype = region.buffer.dtype
            shape = [item.extent for item in region.region]
        else:
            raise IRValueError("T.match_buffer of a parameter needs a shape")
    buffer = declare(
        shape, dtype, data, strides, elem_offset, scope, align, offset_factor, buffer_type, axis_separators
    )
    if isinstance(param, Var):
        func = builder.need(F.PrimFuncFrame, "T.match_buffer", "a prim_func")
        if not any(param is item for item in func.params):
            raise IRValueError(
                f"T.match_buffer: {param.name or 'the variable'} is not a parameter of the function"
            )
        if param in func.buffer_map:
            raise IRValueError(f"T.match_buffer: parameter {param.name} has a buffer already")
        func.buffer_map[param] = buffer
        return buffer
    block = builder.need(F.BlockFrame, "T.match_buffer of a region", "a block")
    source = as_region(param)
    check_match(buffer, source)
    block.match_buffers.append(S.MatchBufferRegion(buffer, source))
    return buffer


def alloc_buffer(
    shape: Any,
    dtype: str = "float32",
    data: Any = None,
    strides: Any = None,
    elem_offset: Any = None,
    scope: str = "global",
    align: int = -1,
    offset_factor: int = 0,
    buffer_type: str = "default",
    axis_separators: Any = None,
) -> Buffer:
    """A buffer that the innermost block, or the root block of the function, allocates."""
    buffer = declare(
        shape, dtype, data, strides, elem_offset, scope, align, offset_factor, buffer_type, axis_separators
    )
    builder = IRBuilder.current()
    F.require_known_at_begin(builder, buffer)
    block = builder.find(F.BlockFrame)
    if block is not None:
        block.alloc_buffers.append(buffer)
    else:
        builder.need(F.PrimFuncFrame, "T.alloc_buffer", "a block or prim_func").root_alloc_buffers.append(
            buffer
        )
    return buffer


def decl_buffer(
    shape: Any,
    dtype: str = "float32",
    data: Any = None,
    strides: Any = None,
    elem_offset: Any = None,
    scope: str = "global",
    align: int = 0,
    offset_factor: int = 0,
    buffer_type: str = "",
    axis_separators: Any = None,
) -> F.DeclBufferFrame:
    """A buffer declared for the rest of the body; without ``data`` its memory is allocated too."""
    found = declare(
        shape, dtype, data, strides, elem_offset, scope, align, offset_factor, buffer_type, axis_separators
    )
    return F.DeclBufferFrame(found, data is None)


# ---- functions ---------------------------------------------------------------------------------------------------


def prim_func(is_private: bool = False) -> F.PrimFuncFrame:
    """Open a PrimFunc."""
    return F.PrimFuncFrame(None, is_private)


def func_name(name: str) -> None:
    """Name the function."""
    IRBuilder.current().need(F.PrimFuncFrame, "T.func_name", "a prim_func").name = name


def func_ret(ret_type: Any) -> Any:
    """Declare the function's result type."""
    func = IRBuilder.current().need(F.PrimFuncFrame, "T.func_ret", "a prim_func")
    func.ret_type = ret_type
    return ret_type


def arg(name: str, obj: Any) -> Any:
    """Add a parameter: a variable, or a buffer (whose handle is added)."""
    func = IRBuilder.current().need(F.PrimFuncFrame, "T.arg", "a prim_func")
    IRBuilder.name(name, obj)
    if isinstance(obj, Buffer):
        handle = Var(f"{name}_handle", "handle")
        func.params.append(handle)
        func.buffer_map[handle] = obj
    else:
        func.params.append(obj)
    return obj


def func_attr(attrs: Mapping[str, Any]) -> None:
    """Set attributes of the function."""
    func = IRBuilder.current().need(F.PrimFuncFrame, "T.func_attr", "a prim_func")
    func.attrs.update(plain(dict(attrs)))


def plain(value: Any) -> Any:
    """Values of attributes and annotations: bool constants become Python's."""
    if isinstance(value, IntImm) and value.dtype == "bool":
        return bool(value.value)
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(plain(item) for item in value)
    return value


# ---- blocks ------------------------------------------------------------------------------------------------------


def block(name: str = "", no_realize: bool = False, exec_scope: str = "") -> F.BlockFrame:
    """Open a block; there are no execution scopes besides that of its loops."""
    if exec_scope:
        raise IRValueError(f"block {name!r}: there are no execution scopes, got exec_scope={exec_scope!r}")
    return F.BlockFrame(name, no_realize)


def init() -> F.InitFrame:
    """Open the initialization of a block's reduction."""
    return F.InitFrame()


def where(predicate: Any) -> None:
    """The condition under which the block runs."""
    frame = IRBuilder.current().need(F.BlockFrame, "T.where", "a block")
    if frame.predicate is not None:
        raise IRValueError(f"block {frame.name!r} has two T.where")
    frame.predicate = as_condition(predicate, "T.where")


def reads(*buffer_slices: Any) -> None:
    """The regions that the block reads."""
    frame = IRBuilder.current().need(F.BlockFrame, "T.reads", "a block")
    if frame.reads is not None:
        raise IRValueError(f"block {frame.name!r} has two T.reads")
    frame.reads = regions(buffer_slices)


def writes(*buffer_slices: Any) -> None:
    """The regions that the block writes."""
    frame = IRBuilder.current().need(F.BlockFrame, "T.writes", "a block")
    if frame.writes is not None:
        raise IRValueError(f"block {frame.name!r} has two T.writes")
    frame.writes = regions(buffer_slices)


def block_attr(attrs: Mapping[str, Any]) -> None:
    """Set annotations of the block."""
    frame = IRBuilder.current().need(F.BlockFrame, "T.block_attr", "a block")
    if frame.annotations is not None:
        raise IRValueError(f"block {frame.name!r} has two T.block_attr")
    frame.annotations = plain(dict(attrs))


def _axis_domain(dom: Any) -> Range:
    if isinstance(dom, Range):
        return dom
    if isinstance(dom, tuple | list):
        if len(dom) != 2:
            raise IRValueError(f"an axis' domain is an extent or (begin, end), got {len(dom)} values")
        low, high = match_dtypes(convert(dom[0]), convert(dom[1]))
        return Range.from_min_extent(low, extent_between(low, high))
    extent = convert(dom)
    return Range.from_min_extent(const(0, extent.dtype), extent)


class axis:
    """Iteration variables of the innermost block, by their kind."""

    @staticmethod
    def axis(dom: Any, binding: Any = None, dtype: str = "int32", kind: str = "DataPar") -> Var:
        """An axis of any kind, named as in ``T.iter_var``."""
        frame = IRBuilder.current().need(F.BlockFrame, "T.axis", "a block")
        if isinstance(dom, Var) and isinstance(binding, int | IntImm):
            loops = [
                var
                for item in IRBuilder.current().frames
                if isinstance(item, F.ForFrame)
                for var in item.vars
            ]
            if any(dom is var for var in loops):
                raise IRValueError(
                    f"an axis takes its extent, then its value, got the loop variable {dom.name} as extent; write"
                    f" T.axis.spatial({binding}, {dom.name}), or the kind of axis that is meant"
                )
        domain = _axis_domain(dom)
        if dt.code(domain.extent.dtype) not in ("int", "uint"):
            raise IRTypeError(f"the domain of an axis must be integers, got {domain.extent.dtype}")
        if dtype == "int32":
            bits = max(dt.bits(domain.min.dtype), dt.bits(domain.extent.dtype), 32)
            dtype = f"int{bits}"
        var = Var("", dtype)
        frame.iter_vars.append(IterVar(domain, var, ITER_TYPE_NAMES[kind]))
        if binding is not None:
            frame.iter_values.append(convert(binding))
        return var

    @staticmethod
    def spatial(dom: Any, binding: Any = None, dtype: str = "int32") -> Var:
        """A data-parallel axis over ``dom`` (an extent or ``(begin, end)``) with the value ``binding``."""
        return axis.axis(dom, binding, dtype, "DataPar")

    @staticmethod
    def reduce(dom: Any, binding: Any = None, dtype: str = "int32") -> Var:
        """A reduction axis."""
        return axis.axis(dom, binding, dtype, "CommReduce")

    @staticmethod
    def scan(dom: Any, binding: Any = None, dtype: str = "int32") -> Var:
        """An ordered axis."""
        return axis.axis(dom, binding, dtype, "Ordered")

    @staticmethod
    def opaque(dom: Any, binding: Any = None, dtype: str = "int32") -> Var:
        """An opaque axis."""
        return axis.axis(dom, binding, dtype, "Opaque")

    @staticmethod
    def remap(kinds: str, bindings: Sequence[Any], dtype: str = "int32") -> Any:
        """Axes over the loops around: one letter (S or R) and one loop variable each, whose dtype the axis has."""
        builder = IRBuilder.current()
        frame = builder.need(F.BlockFrame, "T.axis.remap", "a block")
        values: list[Any] = list(bindings) if isinstance(bindings, list | tuple) else [bindings]
        if len(kinds) != len(values):
            raise IRValueError(f"T.axis.remap: {len(kinds)} kinds in {kinds!r}, but {len(values)} bindings")
        loops = {
            id(var): dom
            for item in builder.frames
            if isinstance(item, F.ForFrame)
            for var, dom in zip(item.vars, item.doms)
        }
        found = []
        for kind, value in zip(kinds, values, strict=True):
            if kind not in "SR":
                raise IRValueError(f"T.axis.remap: unknown kind {kind!r}; S is spatial, R is reduce")
            if id(value) not in loops:
                raise IRValueError(f"T.axis.remap: {value!r} is not the variable of a loop around the block")
            if dtype not in ("int32", value.dtype):
                raise IRValueError(
                    f"T.axis.remap: loop {value!r} is {value.dtype}, its axis cannot be {dtype}"
                )
            var = Var("", value.dtype)
            dom = loops[id(value)]
            frame.iter_vars.append(IterVar(dom, var, IterVar.DataPar if kind == "S" else IterVar.CommReduce))
            frame.iter_values.append(value)
            found.append(var)
        return found[0] if len(found) == 1 else found

    S = spatial
    R = reduce


ITER_TYPE_NAMES = {
    "DataPar": 0,
    "ThreadIndex": 1,
    "CommReduce": 2,
    "Ordered": 3,
    "DimInfo": 4,
    "Opaque": 4,
    "Unrolled": 5,
    "Vectorized": 6,
    "Parallelized": 7,
    "Tensorized": 8,
}


# ---- loops -------------------------------------------------------------------------------------------------------


def _domain(start: Any, stop: Any, extent: Any = None) -> Range:
    if extent is not None:
        low, count = match_dtypes(convert(start), convert(extent))
        return Range.from_min_extent(low, count)
    if stop is None:
        count = _as_extent(start)
        return Range.from_min_extent(const(0, count.dtype), count)
    low, high = match_dtypes(_as_extent(start), _as_extent(stop))
    return Range.from_min_extent(low, extent_between(low, high))


def _as_extent(value: Any) -> PrimExpr:
    found = convert(value)
    if dt.code(found.dtype) not in ("int", "uint"):
        raise IRTypeError(f"a loop's bound must be an integer, got {found.dtype}")
    return found


def _loop(
    kind: S.ForKind, start: Any, stop: Any, extent: Any, annotations: Any, thread: str | None = None
) -> F.ForFrame:
    dom = _domain(start, stop, extent)
    binding = None if thread is None else IterVar(None, Var("", "int32"), IterVar.ThreadIndex, thread)
    notes = plain(dict(annotations or {}))

    def make(variables: list[Var], doms: list[Range], body: S.Stmt) -> S.Stmt:
        return S.For(variables[0], doms[0].min, doms[0].extent, kind, body, binding, notes)

    return F.ForFrame([Var("", dom.extent.dtype)], [dom], make, kind=kind)


def serial(start: Any, stop: Any = None, *, annotations: Any = None, extent: Any = None) -> F.ForFrame:
    """A serial loop over ``range(start)`` or ``range(start, stop)``."""
    return _loop(S.ForKind.SERIAL, start, stop, extent, annotations)


def parallel(start: Any, stop: Any = None, *, annotations: Any = None, extent: Any = None) -> F.ForFrame:
    """A parallel loop."""
    return _loop(S.ForKind.PARALLEL, start, stop, extent, annotations)


def vectorized(start: Any, stop: Any = None, *, annotations: Any = None, extent: Any = None) -> F.ForFrame:
    """A vectorized loop."""
    return _loop(S.ForKind.VECTORIZED, start, stop, extent, annotations)


def unroll(start: Any, stop: Any = None, *, annotations: Any = None, extent: Any = None) -> F.ForFrame:
    """An unrolled loop."""
    return _loop(S.ForKind.UNROLLED, start, stop, extent, annotations)


def thread_binding(
    start: Any, stop: Any = None, thread: str | None = None, *, annotations: Any = None, extent: Any = None
) -> F.ForFrame:
    """A loop bound to a thread axis such as ``"threadIdx.x"``."""
    if thread is None:
        if not isinstance(stop, str):
            raise IRValueError(
                'T.thread_binding needs the thread axis, as in T.thread_binding(128, thread="threadIdx.x")'
            )
        thread, stop = stop, None
    return _loop(S.ForKind.THREAD_BINDING, start, stop, extent, annotations, thread)


def grid(*extents: Any) -> F.ForFrame:
    """Nested serial loops."""
    doms = [_domain(*item) if isinstance(item, tuple) else _domain(item, None) for item in extents]

    def make(variables: list[Var], ranges: list[Range], body: S.Stmt) -> S.Stmt:
        for var, dom in zip(reversed(variables), reversed(ranges), strict=True):
            body = S.For(var, dom.min, dom.extent, S.ForKind.SERIAL, body)
        return body

    return F.ForFrame([Var("", dom.extent.dtype) for dom in doms], doms, make, single=False)


# ---- scopes and statements ---------------------------------------------------------------------------------------


def Assert(condition: Any, message: str) -> F.AssertFrame:
    """Fail with a message unless the condition holds."""
    return F.AssertFrame(condition, message)


def LetStmt(value: Any, type_annotation: Any = None, *, var: Var | None = None) -> F.LetFrame:
    """A variable with a value for the rest of the body."""
    found = convert(value)
    if var is None:
        if isinstance(type_annotation, Var):  # T.handle("float32")
            var = type_annotation
        else:
            kind = getattr(type_annotation, "dtype", None) or type_annotation
            var = Var("", found.dtype if kind is None else kind)
    return F.LetFrame(var, found)


def Let(expr: Any, where: Mapping[Var, Any]) -> PrimExpr:
    """An expression with variables standing for values: ``T.Let(x + 1, where={x: y * 2})``."""
    if not where:
        raise IRValueError("T.Let needs at least one variable in `where`")
    result = convert(expr)
    for var, value in reversed(list(where.items())):
        result = _LetNode(var, convert(value), result)
    return result


def let(v: Var, value: Any, body: Any = None) -> Any:
    """``T.let(v, value, body)``: the expression; without a body, the statement."""
    return LetStmt(value, var=v) if body is None else _LetNode(v, convert(value), convert(body))


def realize(buffer_slice: Any, storage_scope: str, condition: Any = True) -> F.RealizeFrame:
    """A buffer that exists within a region for the body."""
    return F.RealizeFrame(as_region(buffer_slice), storage_scope, condition)


def allocate(
    extents: Any,
    dtype: str = "float32",
    scope: str = "global",
    condition: Any = None,
    annotations: Any = None,
) -> F.AllocateFrame:
    """Memory for the rest of the body; binds the pointer."""
    return F.AllocateFrame(as_shape(extents), dtype, scope, condition, plain(dict(annotations or {})))


def allocate_const(data: Any, dtype: str, extents: Any, annotations: Any = None) -> F.AllocateConstFrame:
    """Constant memory for the rest of the body; ``data`` is an array or a list."""
    array = data if isinstance(data, np.ndarray) else np.asarray(data, dt.to_numpy(dtype))
    return F.AllocateConstFrame(array, dtype, as_shape(extents), plain(dict(annotations or {})))


def attr(node: Any, attr_key: str, value: Any) -> F.AttrFrame:
    """An attribute around the rest of the body."""
    return F.AttrFrame(node, attr_key, value)


def env_thread(thread_tag: str, dtype: str = "int32") -> Var:
    """A thread variable, to be launched by ``T.launch_thread`` (possibly more than once)."""
    func = IRBuilder.current().need(F.PrimFuncFrame, "T.env_thread", "a prim_func")
    var = Var("", dtype)
    func.env_threads[id(var)] = (var, thread_tag, [])
    return var


def launch_thread(thread: Any, extent: Any) -> F.AttrFrame:
    """Launch threads along an axis, given by its tag or by ``T.env_thread``; binds the thread's variable."""
    func = IRBuilder.current().need(F.PrimFuncFrame, "T.launch_thread", "a prim_func")
    count = convert(extent)
    if isinstance(thread, str):
        thread = env_thread(thread, count.dtype)
    if id(thread) not in func.env_threads:
        raise IRValueError("T.launch_thread needs a thread tag, or a variable made by T.env_thread")
    var, tag, made = func.env_threads[id(thread)]
    found = next((item for item in made if _same_extent(item.dom.extent, count)), None)
    if found is None:
        found = IterVar(Range.from_min_extent(const(0, count.dtype), count), var, IterVar.ThreadIndex, tag)
        made.append(found)
    return F.AttrFrame(found, "virtual_thread" if tag.startswith("vthread") else "thread_extent", count, var)


def _same_extent(a: PrimExpr, b: PrimExpr) -> bool:
    return a is b or (
        isinstance(a, IntImm) and isinstance(b, IntImm) and a.value == b.value and a.dtype == b.dtype
    )


def While(condition: Any) -> F.WhileFrame:
    """A loop with a condition."""
    return F.WhileFrame(condition)


def If(condition: Any) -> F.IfFrame:
    """A conditional; see :class:`ir.script.ir_builder.tir_frames.IfFrame`."""
    return F.IfFrame(condition)


def Then() -> F.ThenFrame:
    """The branch where the condition of ``T.If`` holds."""
    return F.ThenFrame()


def Else() -> F.ElseFrame:
    """The other branch of ``T.If``."""
    return F.ElseFrame()


def buffer_store(buffer: Buffer, value: Any, indices: Any, predicate: Any = None) -> None:
    """Store ``value``, converted to the buffer's dtype, at ``indices``."""
    F.emit(make_store(buffer, value, indices, predicate))


def evaluate(value: Any) -> None:
    """Evaluate an expression for its effect."""
    if isinstance(value, S.BufferRegion):
        value = region_as_load(value)
    found = convert(value)
    if getattr(getattr(found, "op", None), "name", "") == "tir.ret":
        F.check_return()
    F.emit(S.Evaluate(found))


# ---- reducers and maps -------------------------------------------------------------------------------------------


def comm_reducer(combiner: Callable[..., Any], identity: Sequence[Any]) -> CommReducer:
    """A combiner from a function of left and right values, and its identity elements."""
    values = [convert(item) for item in identity]
    names = (
        list(combiner.__code__.co_varnames[: combiner.__code__.co_argcount])
        if hasattr(combiner, "__code__")
        else []
    )
    names = names or list(getattr(combiner, "params", ()))
    if len(names) != 2 * len(values):
        raise IRValueError(
            f"T.comm_reducer: {len(values)} identity elements need {2 * len(values)} parameters, got {len(names)}"
        )
    lhs = [Var(name, item.dtype) for name, item in zip(names[: len(values)], values, strict=True)]
    rhs = [Var(name, item.dtype) for name, item in zip(names[len(values) :], values, strict=True)]
    result = combiner(*lhs, *rhs)
    results = list(result) if isinstance(result, tuple | list) else [result]
    return CommReducer(lhs, rhs, [convert(item) for item in results], values)


def index_map(
    mapping: Callable[..., Any], *, inverse_index_map: Any = None, index_dtype: str = "int32"
) -> IndexMap:
    """An index map from a function."""
    if callable(inverse_index_map) and not isinstance(inverse_index_map, IndexMap):
        inverse_index_map = IndexMap.from_func(inverse_index_map, index_dtype=index_dtype)
    return IndexMap.from_func(mapping, inverse_index_map=inverse_index_map, index_dtype=index_dtype)


def iter_var(var: Any, dom: Any, iter_type: str, thread_tag: str = "") -> IterVar:
    """An iteration variable of any kind."""
    if isinstance(dom, tuple | list):
        dom = _axis_domain(dom)
    return IterVar(dom, var, ITER_TYPE_NAMES[iter_type], thread_tag)


def target(target_config: Any, host: Any = None) -> Any:
    """A compilation target from its string or dict form."""
    return Target(target_config) if host is None else Target(target_config, host)


def call_of(dtype: str, name: str, args: Sequence[Any]) -> Call:
    """A call of an intrinsic with arguments converted to expressions; regions become vector loads."""
    values = [region_as_load(item) if isinstance(item, S.BufferRegion) else item for item in args]
    return call_intrin(dtype, name, *values)
