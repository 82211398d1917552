"""A slow, simple interpreter of TIR over numpy arrays: the independent oracle that code generation is tested against.

It runs programs in every form, with blocks or lowered, one element at a time, and checks what native code does not:
that accesses are in bounds.  Uninitialized memory holds a recognizable pattern (NaN, or a large number).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from .. import dtype as dt
from ..error import IRError, IRValueError
from ..expr import GlobalVar
from ..integer import truncated_quotient
from ..module import IRModule
from ..node import Visitor
from ..registry import get_global_func
from . import expr as E
from . import stmt as S
from .buffer import Buffer
from .function import PrimFunc
from .intrinsic.declaration import find


class InterpreterError(IRError):
    """The interpreted program did something wrong: an index out of bounds, a failed assertion, an unknown intrinsic."""


class _Return(BaseException):
    """Unwinds to the function's caller; a BaseException so that no handler of the program's own errors sees it."""

    def __init__(self, value: Any) -> None:
        super().__init__()
        self.value = value


class _Pointer:
    """An address: flat storage and an element offset into it."""

    def __init__(self, storage: np.ndarray, offset: int = 0) -> None:
        self.storage = storage
        self.offset = offset

    def seen_as(self, dtype: np.dtype[Any]) -> _Pointer:
        """The same memory as elements of another dtype."""
        if self.storage.dtype == dtype:
            return self
        memory = self.storage.view("uint8")[self.offset * self.storage.itemsize :]
        return _Pointer(memory[: len(memory) // dtype.itemsize * dtype.itemsize].view(dtype))


def _extents(buffer: Buffer, array: np.ndarray) -> tuple[int, ...]:
    """The shape of an array in elements of the buffer; where those are vectors, its last dimension holds their lanes."""
    lanes = dt.lanes(buffer.dtype)
    return array.shape[:-1] if lanes > 1 and array.shape[-1:] == (lanes,) else array.shape


def _poison(count: int, dtype: str) -> np.ndarray:
    numpy_dtype = dt.to_numpy(dtype)
    if dt.is_float(dtype):
        return np.full(count, float("nan"), numpy_dtype)
    if dt.is_bool(dtype):
        return np.ones(count, numpy_dtype)
    return np.full(count, 0x55, numpy_dtype)


_BINARY: dict[type, Callable[[Any, Any], Any]] = {
    E.Add: np.add, E.Sub: np.subtract, E.Mul: np.multiply, E.FloorDiv: np.floor_divide, E.FloorMod: np.mod,
    E.Min: np.minimum, E.Max: np.maximum, E.EQ: np.equal, E.NE: np.not_equal, E.LT: np.less, E.LE: np.less_equal,
    E.GT: np.greater, E.GE: np.greater_equal, E.And: np.logical_and, E.Or: np.logical_or,
}  # fmt: skip


class Interpreter(Visitor):
    """Runs statements of one function call; use :func:`run`."""

    def __init__(self, module: IRModule | None = None) -> None:
        super().__init__()
        self.module = module
        self.values: dict[E.Var, Any] = {}

    # -- functions -------------------------------------------------------------
    def call(self, func: PrimFunc, args: Sequence[Any]) -> Any:
        """Runs a function on arrays, pointers and numbers in parameter order."""
        if len(args) != len(func.params):
            raise InterpreterError(f"the function takes {len(func.params)} arguments, got {len(args)}")
        for param, arg in zip(func.params, args):
            buffer = func.buffer_map.get(param)
            if buffer is None:
                self.values[param] = _argument(arg, param.dtype)
            elif isinstance(arg, _Pointer):
                self.values[buffer.data] = arg
            else:
                self._bind(buffer, np.asarray(arg))
        for param, arg in zip(func.params, args):
            if param in func.buffer_map and not isinstance(arg, _Pointer):
                buffer = func.buffer_map[param]
                self._check_extents(buffer, _extents(buffer, np.asarray(arg)))
        try:
            self.visit(func.body)
        except _Return as returned:
            return returned.value
        return None

    def _bind(self, buffer: Buffer, array: np.ndarray) -> None:
        if array.dtype != dt.to_numpy(buffer.dtype):
            raise InterpreterError(f"buffer {buffer.name} is {buffer.dtype}, got an array of {array.dtype}")
        if not array.flags.c_contiguous:
            raise InterpreterError(f"the array for buffer {buffer.name} must be contiguous")
        shape = _extents(buffer, array)
        if len(shape) != len(buffer.shape):
            raise InterpreterError(
                f"buffer {buffer.name} has {len(buffer.shape)} dimensions, got an array of shape {array.shape}"
            )
        for extent, actual in zip(buffer.shape, shape):
            if isinstance(extent, E.Var) and extent not in self.values:
                self.values[extent] = _scalar(actual, extent.dtype)
        self.values[buffer.data] = _Pointer(array.reshape(-1))
        if isinstance(buffer.elem_offset, E.Var):
            self.values[buffer.elem_offset] = _scalar(0, buffer.elem_offset.dtype)
        dense = 1
        for stride, actual in reversed(list(zip(buffer.strides, shape))):
            if isinstance(stride, E.Var):
                self.values[stride] = _scalar(dense, stride.dtype)
            dense *= actual

    def _check_extents(self, buffer: Buffer, shape: Sequence[int]) -> None:
        for axis, (extent, actual) in enumerate(zip(buffer.shape, shape)):
            if int(self.visit(extent)) != actual:
                raise InterpreterError(
                    f"dimension {axis} of buffer {buffer.name} is {self.visit(extent)}, got an array of shape {tuple(shape)}"
                )

    # -- statements --------------------------------------------------------------
    def visit_SeqStmt(self, node: S.SeqStmt) -> None:
        for item in node.seq:
            self.visit(item)

    def visit_For(self, node: S.For) -> None:
        self._repeat(node.loop_var, int(self.visit(node.min)), int(self.visit(node.extent)), node.body)

    def _repeat(self, var: E.Var, start: int, extent: int, body: S.Stmt) -> None:
        for value in range(start, start + extent):
            self.values[var] = _scalar(value, var.dtype)
            self.visit(body)

    def visit_While(self, node: S.While) -> None:
        while bool(self.visit(node.condition)):
            self.visit(node.body)

    def visit_IfThenElse(self, node: S.IfThenElse) -> None:
        if bool(self.visit(node.condition)):
            self.visit(node.then_case)
        elif node.else_case is not None:
            self.visit(node.else_case)

    def visit_LetStmt(self, node: S.LetStmt) -> None:
        self.values[node.var] = self.visit(node.value)
        self.visit(node.body)

    def visit_AttrStmt(self, node: S.AttrStmt) -> None:
        if node.attr_key == "thread_extent" and isinstance(node.node, E.IterVar):
            # threads run one after the other, as loops do that are bound to them
            self._repeat(node.node.var, 0, int(self.visit(node.value)), node.body)
        else:
            self.visit(node.body)

    def visit_AssertStmt(self, node: S.AssertStmt) -> None:
        if not bool(self.visit(node.condition)):
            raise InterpreterError(f"assertion failed: {getattr(node.message, 'value', node.message)}")
        self.visit(node.body)

    def visit_Evaluate(self, node: S.Evaluate) -> None:
        self.visit(node.value)

    def visit_BufferStore(self, node: S.BufferStore) -> None:
        value = self.visit(node.value)
        if node.predicate is None:
            pointer, offsets = self._locate(node.buffer, node.indices)
            pointer.storage[offsets] = np.asarray(value).astype(pointer.storage.dtype)
            return
        mask = np.broadcast_to(self.visit(node.predicate), (dt.lanes(node.value.dtype),))
        pointer, offsets = self._locate(node.buffer, node.indices, mask)
        pointer.storage[np.broadcast_to(offsets, mask.shape)[mask]] = np.broadcast_to(value, mask.shape)[mask]

    def visit_Allocate(self, node: S.Allocate) -> None:
        count = math.prod(int(self.visit(extent)) for extent in node.extents) * dt.lanes(node.dtype)
        self.values[node.buffer_var] = _Pointer(_poison(count, dt.element_of(node.dtype)))
        self.visit(node.body)

    def visit_AllocateConst(self, node: S.AllocateConst) -> None:
        data = np.asarray(getattr(node.data, "numpy", lambda: node.data)())
        self.values[node.buffer_var] = _Pointer(np.ascontiguousarray(data).reshape(-1))
        self.visit(node.body)

    def visit_DeclBuffer(self, node: S.DeclBuffer) -> None:
        if node.buffer.data not in self.values:
            self._allocate(node.buffer)
        self.visit(node.body)

    def visit_BufferRealize(self, node: S.BufferRealize) -> None:
        self._allocate(node.buffer)
        self.visit(node.body)

    def _allocate(self, buffer: Buffer) -> None:
        shape = [int(self.visit(extent)) for extent in buffer.shape]
        if buffer.strides:
            count = shape[0] * int(self.visit(buffer.strides[0])) if shape else 1
        else:
            count = math.prod(shape)
        self.values[buffer.data] = _Pointer(
            _poison(count * dt.lanes(buffer.dtype), dt.element_of(buffer.dtype))
        )

    def visit_BlockRealize(self, node: S.BlockRealize) -> None:
        if not bool(self.visit(node.predicate)):
            return
        block = node.block
        bindings = [self.visit(value) for value in node.iter_values]
        starts = True
        for iter_var, value in zip(block.iter_vars, bindings):
            self.values[iter_var.var] = _scalar(value, iter_var.var.dtype)
            if iter_var.iter_type == E.IterVar.CommReduce:
                starts &= int(value) == int(self.visit(iter_var.dom.min))
        for buffer in block.alloc_buffers:
            self._allocate(buffer)
        for match in block.match_buffers:
            self._match(match)
        if block.init is not None and starts:
            self.visit(block.init)
        self.visit(block.body)

    def _match(self, match: S.MatchBufferRegion) -> None:
        """Binds the view's pointer, its symbolic offset, strides and extents."""
        view, source = match.buffer, match.source.buffer
        pointer, start = self._locate(source, [r.min for r in match.source.region])
        extents = [int(self.visit(r.extent)) for r in match.source.region]
        strides = self._strides(source)
        dropped = len(extents) - len(view.shape)
        if isinstance(view.elem_offset, E.Var):
            # the view indexes from its own offset, so its pointer is that of the source
            self.values[view.elem_offset] = _scalar(start, view.elem_offset.dtype)
            self.values[view.data] = _Pointer(pointer.storage)
        else:
            self.values[view.data] = _Pointer(pointer.storage, int(start))
        for extent, actual in zip(view.shape, extents[dropped:]):
            if isinstance(extent, E.Var):
                self.values[extent] = _scalar(actual, extent.dtype)
        for stride, actual in zip(view.strides, strides[dropped:]):
            if isinstance(stride, E.Var):
                self.values[stride] = _scalar(actual, stride.dtype)
        if not view.strides and view.shape:
            self._dense_views[view] = strides[dropped:]

    @property
    def _dense_views(self) -> dict[Buffer, list[int]]:
        """Views declared without strides still follow the source's layout."""
        return self.__dict__.setdefault("_views", {})

    def _strides(self, buffer: Buffer) -> list[int]:
        if buffer in self._dense_views:
            return self._dense_views[buffer]
        if buffer.strides:
            return [int(self.visit(stride)) for stride in buffer.strides]
        strides, dense = [], 1
        for extent in reversed(buffer.shape):
            strides.append(dense)
            dense *= int(self.visit(extent))
        return strides[::-1]

    def _locate(
        self, buffer: Buffer, indices: Sequence[E.PrimExpr], mask: np.ndarray | None = None
    ) -> tuple[_Pointer, Any]:
        """Storage and flat offset (an array for vector accesses); only lanes of the mask must be in bounds."""
        pointer = self.values.get(buffer.data)
        if not isinstance(pointer, _Pointer):
            raise InterpreterError(f"buffer {buffer.name} is used before it is allocated")
        pointer = pointer.seen_as(np.dtype(dt.to_numpy(dt.element_of(buffer.dtype))))
        offset: Any = pointer.offset
        if buffer.elem_offset is not None:
            offset = offset + int(self.visit(buffer.elem_offset))
        if len(indices) != len(buffer.shape):
            raise InterpreterError(
                f"buffer {buffer.name} has {len(buffer.shape)} dimensions, got {len(indices)} indices"
            )
        for position, (index, extent, stride) in enumerate(zip(indices, buffer.shape, self._strides(buffer))):
            value = self.visit(index)
            bound = int(self.visit(extent))
            if mask is None and isinstance(value, np.integer):  # one element, as nearly always
                value = int(value)
                is_outside = not 0 <= value < bound
            else:
                value = np.asarray(value).astype("int64")
                outside = (value < 0) | (value >= bound)
                is_outside = bool(np.any(outside if mask is None else outside & mask))
            if is_outside:
                raise InterpreterError(
                    f"index {value} of dimension {position} of {buffer.name} is not in [0, {bound})"
                )
            offset = offset + value * stride
        lanes = dt.lanes(buffer.dtype)
        if lanes > 1:  # elements that are vectors themselves
            offset = (np.asarray(offset)[..., None] * lanes + np.arange(lanes)).reshape(-1)
        beyond = offset >= len(pointer.storage)
        if beyond if isinstance(beyond, bool) else np.any(beyond if mask is None else beyond & mask):
            raise InterpreterError(
                f"an access of {buffer.name} is behind its {len(pointer.storage)} elements"
            )
        return pointer, offset

    # -- expressions -------------------------------------------------------------
    def visit_Var(self, node: E.Var) -> Any:
        try:
            return self.values[node]
        except KeyError:
            raise InterpreterError(f"variable {node.name} has no value here") from None

    def visit_IntImm(self, node: E.IntImm) -> Any:
        return _number(node.value, node.dtype)

    def visit_FloatImm(self, node: E.FloatImm) -> Any:
        return _number(repr(node.value), node.dtype)

    def visit_StringImm(self, node: E.StringImm) -> str:
        return node.value

    def visit_BinaryOpExpr(self, node: Any) -> Any:
        a, b = self.visit(node.a), self.visit(node.b)
        with np.errstate(all="ignore"):
            if isinstance(node, E.Div):
                return np.divide(a, b) if dt.is_float(node.dtype) else truncated_quotient(a, b)
            if isinstance(node, E.Mod):
                return np.fmod(a, b)
            return _BINARY[type(node)](a, b)

    def visit_CmpExpr(self, node: Any) -> Any:
        return _BINARY[type(node)](self.visit(node.a), self.visit(node.b))

    def visit_LogicalExpr(self, node: Any) -> Any:
        a = self.visit(node.a)
        if np.ndim(a) == 0 and bool(a) == isinstance(node, E.Or):
            return a  # short circuit: the other side may be out of bounds
        return _BINARY[type(node)](a, self.visit(node.b))

    def visit_Not(self, node: E.Not) -> Any:
        return np.logical_not(self.visit(node.a))

    def visit_Select(self, node: E.Select) -> Any:
        return self._choose(node.condition, node.true_value, node.false_value)

    def _choose(self, condition: E.PrimExpr, yes: E.PrimExpr, no: E.PrimExpr) -> Any:
        chosen = self.visit(condition)
        if np.ndim(chosen) == 0:
            return self.visit(yes if bool(chosen) else no)
        return np.where(chosen, self.visit(yes), self.visit(no))

    def visit_Cast(self, node: E.Cast) -> Any:
        value = np.asarray(self.visit(node.value))
        target = dt.to_numpy(node.dtype)
        with np.errstate(all="ignore"):
            return value.astype(target) if value.ndim else target.type(value.astype(target))

    def visit_Let(self, node: E.Let) -> Any:
        self.values[node.var] = self.visit(node.value)
        return self.visit(node.body)

    def visit_Ramp(self, node: E.Ramp) -> Any:
        base, stride = self.visit(node.base), self.visit(node.stride)
        return (base + stride * np.arange(node.lanes)).astype(dt.to_numpy(node.dtype))

    def visit_Broadcast(self, node: E.Broadcast) -> Any:
        return np.tile(np.asarray(self.visit(node.value)), node.lanes).astype(dt.to_numpy(node.dtype))

    def visit_Shuffle(self, node: E.Shuffle) -> Any:
        lanes = np.concatenate([np.atleast_1d(self.visit(v)) for v in node.vectors])
        picked = lanes[[int(self.visit(i)) for i in node.indices]]
        return picked if len(picked) > 1 else picked[0]

    def visit_BufferLoad(self, node: E.BufferLoad) -> Any:
        if node.predicate is None:
            pointer, offsets = self._locate(node.buffer, node.indices)
            return pointer.storage[offsets]
        # lanes that are masked off are zero and may lie anywhere
        mask = np.broadcast_to(self.visit(node.predicate), (dt.lanes(node.dtype),))
        pointer, offsets = self._locate(node.buffer, node.indices, mask)
        loaded = np.zeros(dt.lanes(node.dtype), dt.to_numpy(node.dtype))
        loaded[mask] = pointer.storage[np.broadcast_to(offsets, mask.shape)[mask]]
        return loaded if dt.lanes(node.dtype) > 1 else loaded[0]

    def visit_Call(self, node: E.Call) -> Any:
        if isinstance(node.op, GlobalVar):
            return self._call_function(node)
        special = _NO_FUNCTIONS_OF_VALUES.get(node.op.name)
        if special is not None:
            return special(self, node)
        record = find(node)
        if record is None or record.meaning is None:
            raise InterpreterError(f"the interpreter does not know {node.op.name}")
        args = [self.visit(arg) for arg in node.args]
        try:
            with np.errstate(all="ignore"):
                found = record.meaning(node.dtype, *args) if record.dtype_first else record.meaning(*args)
        except IRValueError as error:
            raise InterpreterError(str(error)) from error
        return _scalar(found, node.dtype)

    def _if_then_else(self, node: E.Call) -> Any:
        return self._choose(*node.args)

    def _ret(self, node: E.Call) -> Any:
        raise _Return(self.visit(node.args[0]))

    def _prefetch(self, node: E.Call) -> Any:
        return np.int32(0)  # a hint, whose address may lie outside of its buffer

    def _address_of(self, node: E.Call) -> _Pointer:
        load = node.args[0]
        assert isinstance(load, E.BufferLoad)
        pointer, offset = self._locate(load.buffer, load.indices)
        return _Pointer(pointer.storage, int(offset))

    def _call_packed(self, node: E.Call) -> Any:
        function = get_global_func(self.visit(node.args[0]))
        result = function(*[_packed(self.visit(arg)) for arg in node.args[1:]])  # type: ignore[misc]
        if isinstance(result, int | float | np.generic) and node.dtype not in ("handle", "void"):
            return _scalar(result, node.dtype)
        return 0 if result is None else result

    def _call_function(self, node: E.Call) -> Any:
        if self.module is None:
            raise InterpreterError(
                f"a call of {node.op.name_hint} needs the module; run the module instead of the function"
            )
        inner = Interpreter(self.module)
        callee = self.module[node.op]
        assert isinstance(callee, PrimFunc)
        return inner.call(callee, [self.visit(a) for a in node.args])

    def generic_visit(self, node: Any) -> Any:
        raise InterpreterError(f"the interpreter does not know {type(node).__name__}")


_NO_FUNCTIONS_OF_VALUES: dict[str, Callable[[Interpreter, E.Call], Any]] = {
    "tir.if_then_else": Interpreter._if_then_else,
    "tir.ret": Interpreter._ret,
    "tir.prefetch": Interpreter._prefetch,
    "tir.address_of": Interpreter._address_of,
    "tir.tvm_call_packed": Interpreter._call_packed,
    "tir.tvm_call_cpacked": Interpreter._call_packed,
}
"""Intrinsics that evaluate their arguments in their own way, or that touch memory; the others have a meaning on arrays."""


def _argument(value: Any, dtype: str) -> Any:
    if dtype == "handle" and isinstance(value, np.ndarray):
        return _Pointer(value.reshape(-1))
    return value if isinstance(value, _Pointer) else _scalar(value, dtype)


@lru_cache(maxsize=4096)
def _number(value: int | str, dtype: str) -> Any:
    """A literal; floats by their text, for 0.0 and -0.0 are equal keys."""
    return _scalar(float(value) if isinstance(value, str) else value, dtype)


def _scalar(value: Any, dtype: str) -> Any:
    """A numpy scalar (or lanes) of exactly the dtype, wrapping integers as machines do."""
    target = dt.to_numpy(dtype)
    if isinstance(value, np.generic) and value.dtype == target:
        return value
    if isinstance(value, int) and -(2**31) <= value < 2**31 and target.kind == "i" and target.itemsize >= 4:
        return target.type(value)
    with np.errstate(all="ignore"):
        array = np.asarray(value)
        if array.dtype == object:  # a Python integer beyond int64
            array = np.asarray(int(value) & (2**64 - 1), dtype="uint64")
        array = array.astype(target)
    return array if array.ndim else array[()]


def _packed(value: Any) -> Any:
    """What a registered function receives: the memory from the address on, or the value."""
    return value.storage[value.offset :] if isinstance(value, _Pointer) else value


def run(
    program: PrimFunc | IRModule, *args: Any, name: str = "main", values: Mapping[E.Var, Any] | None = None
) -> Any:
    """Runs a function on numpy arrays (outputs are written in place) and numbers.

    Args:
        program: a PrimFunc, or a module of them.
        args: one per parameter: arrays for buffers, numbers for scalars.
        name: the function of the module to run.
        values: values of symbolic variables that no array's shape gives.

    Raises:
        InterpreterError: on an access out of bounds, a failed assertion, or an intrinsic that is not known here.
    """
    module = program if isinstance(program, IRModule) else None
    func = program[name] if isinstance(program, IRModule) else program
    interpreter = Interpreter(module)
    for var, value in (values or {}).items():
        interpreter.values[var] = _scalar(value, var.dtype)
    return interpreter.call(func, args)  # type: ignore[arg-type]
