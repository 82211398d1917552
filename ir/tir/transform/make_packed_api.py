"""MakePackedAPI: functions take one array of arguments, whose kinds and shapes they check themselves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from ... import dtype as dt
from ...dlpack_layout import Field, TypeCode, dlpack_dtype
from ...expr import GlobalVar
from ...function import BaseFunc
from ...module import IRModule, fresh_name
from ...node import Mutator, Visitor
from ...transform import ModulePass, PassContext
from ...type import PointerType, PrimType
from ..analysis.call_fit import result_dtype
from ..buffer import Buffer
from ..expr import BufferLoad, Call, PrimExpr, StringImm, Var
from ..function import PrimFunc
from ..intrinsic.control import if_then_else
from ..intrinsic.memory import isnullptr
from ..intrinsic.runtime import tvm_struct_get, tvm_struct_set
from ..kernel_launch import CALLING_CONVENTION, is_kernel
from ..operators import cast, const, logical_and, logical_not, logical_or
from ..stmt import AssertStmt, BufferStore, Evaluate, LetStmt, SeqStmt, Stmt
from .make_unpacked_api import unpacked

PACKED = 1
"""The calling convention of functions that take packed arguments."""
_TENSORS = (TypeCode.HANDLE, TypeCode.TENSOR, TypeCode.NDARRAY)
_ADDRESSES = (TypeCode.HANDLE, TypeCode.NULL, TypeCode.TENSOR, TypeCode.NDARRAY)
_WIDE = {TypeCode.FLOAT: "float64", TypeCode.UINT: "uint64", TypeCode.INT: "int64"}
"""The 8 bytes of a number of each kind."""
_Around = Callable[[Stmt], Stmt]
"""Puts something around what follows it."""


class _Callee(Mutator):
    """Calls of functions that are packed become calls of what computes for them."""

    def __init__(self, computing: dict[GlobalVar, GlobalVar]) -> None:
        super().__init__()
        self._computing = computing

    def visit_Call(self, call: Call) -> PrimExpr:
        mapped = self.generic_visit(call)
        found = self._computing.get(call.op) if isinstance(call.op, GlobalVar) else None
        return mapped if found is None else mapped.replace(op=found)  # type: ignore[no-any-return]


class _Called(Visitor):
    """The names of packed functions that a body calls."""

    def __init__(self) -> None:
        super().__init__()
        self.found: set[str] = set()

    def visit_Call(self, call: Call) -> None:
        if getattr(call.op, "name", "") == "tir.tvm_call_packed":
            self.found.add(str(getattr(call.args[0], "value", "")))
        self.generic_visit(call)


class _Tensor(NamedTuple):
    """What is known of a tensor: its address, and its extents and strides."""

    handle: Var
    shape: Buffer
    strides: Buffer
    is_dense: PrimExpr
    """Whether it has no strides."""


class _Entry:
    """The checks of one function, in order, and what they find: parameters and symbols get their values."""

    def __init__(self, name: str, func: PrimFunc, device_type: int) -> None:
        self._name, self._func, self._device_type = name, func, device_type
        self.args = Var("args", "handle")
        self.codes = Buffer(
            Var("arg_type_ids", PointerType(PrimType("int32"))),
            "int32",
            (len(func.params),),
            name="arg_type_ids",
        )
        self.count = Var("num_args", "int32")
        self.around: list[_Around] = []
        self._bound: set[Var] = set()
        self._device: PrimExpr | None = None
        self._tensors: dict[Var, _Tensor] = {}

    def check(self) -> None:
        """All of it: numbers first, which may be extents; then what is compared with them."""
        func = self._func
        self._assert(self.count.equal(len(func.params)), f"num_args should be {len(func.params)}")
        for number, param in enumerate(func.params):
            if param not in func.buffer_map:
                self._number(number, param)
        for number, param in enumerate(func.params):
            if param in func.buffer_map:
                self._tensor(number, param, func.buffer_map[param])
        for compare in (False, True):
            for param, buffer in func.buffer_map.items():
                self._declaration(self._tensors[param], buffer, compare)
        for param, buffer in func.buffer_map.items():
            self._data(self._tensors[param], buffer)

    # -- statements ------------------------------------------------------------------------------------------------
    def _assert(self, condition: PrimExpr, message: str) -> None:
        text = StringImm(f"{self._name}: {message}")
        self.around.append(lambda body: AssertStmt(condition, text, body))

    def _let(self, var: Var, value: PrimExpr) -> Var:
        self.around.append(lambda body: LetStmt(var, value, body))
        self._bound.add(var)
        return var

    def _code_is(self, number: int, codes: tuple[int, ...]) -> PrimExpr:
        code = BufferLoad(self.codes, [const(number)])
        found = code.equal(int(codes[0]))
        for item in codes[1:]:
            found = logical_or(found, code.equal(int(item)))
        return found

    # -- arguments -------------------------------------------------------------------------------------------------
    def _number(self, number: int, param: Var) -> None:
        expects = f"expects arg[{number}] ({param.name}) to be"
        if param.dtype == "handle":
            self._assert(self._code_is(number, _ADDRESSES), f"{expects} an address")
            self._let(param, tvm_struct_get(self.args, number, Field.VALUE, "handle"))
        elif dt.is_float(param.dtype):
            self._assert(self._code_is(number, (TypeCode.FLOAT,)), f"{expects} {param.dtype}, a float")
            self._let(param, cast(param.dtype, tvm_struct_get(self.args, number, Field.VALUE, "float64")))
        else:
            self._assert(
                self._code_is(number, (TypeCode.INT, TypeCode.UINT)), f"{expects} {param.dtype}, an integer"
            )
            given = tvm_struct_get(self.args, number, Field.VALUE, "int64")
            low, high = dt.integer_range(param.dtype)
            # what is negative as int64 is a number of 2**63 or more where the caller says that it is unsigned
            kind = TypeCode.INT if low < 0 else TypeCode.UINT
            fits = logical_or(self._code_is(number, (kind,)), given >= const(0, "int64"))
            if dt.bits(param.dtype) < 64:
                within = logical_and(given >= const(low, "int64"), given <= const(high, "int64"))
                fits = logical_and(fits, within)
            self._assert(fits, f"{expects} {param.dtype}, of {low} to {high}")
            self._let(param, cast(param.dtype, given))

    def _tensor(self, number: int, param: Var, buffer: Buffer) -> None:
        expects = f"expects arg[{number}] ({buffer.name}) to"
        self._assert(self._code_is(number, _TENSORS), f"{expects} be a tensor")
        tensor = Var(f"{buffer.name}_handle", "handle")
        self._let(tensor, tvm_struct_get(self.args, number, Field.VALUE, "handle"))
        self._assert(logical_not(isnullptr(tensor)), f"{expects} be a tensor, not null")
        ndim = tvm_struct_get(tensor, 0, Field.NDIM, "int32")
        self._assert(ndim.equal(len(buffer.shape)), f"{expects} have {len(buffer.shape)} dimensions")
        code, bits, lanes = dlpack_dtype(buffer.dtype)
        is_of_dtype = tvm_struct_get(tensor, 0, Field.TYPE_CODE, "uint8").equal(const(code, "uint8"))
        for field, value, dtype in ((Field.TYPE_BITS, bits, "uint8"), (Field.TYPE_LANES, lanes, "uint16")):
            is_of_dtype = logical_and(
                is_of_dtype, tvm_struct_get(tensor, 0, field, dtype).equal(const(value, dtype))
            )
        self._assert(is_of_dtype, f"{expects} be of {buffer.dtype}")
        device = tvm_struct_get(tensor, 0, Field.DEVICE_TYPE, "int32")
        self._assert(
            device.equal(self._device_type), f"{expects} lie on a device of type {self._device_type}"
        )
        index = tvm_struct_get(tensor, 0, Field.DEVICE_ID, "int32")
        if self._device is None:
            self._device = index
        else:
            self._assert(index.equal(self._device), f"{expects} lie on the device of the tensors before it")
        shape = self._numbers(
            f"{buffer.name}_shape", tvm_struct_get(tensor, 0, Field.SHAPE, "handle"), buffer
        )
        given = tvm_struct_get(tensor, 0, Field.STRIDES, "handle")
        # memory that may be read, also where there are no strides: reads of buffers are moved out of choices
        somewhere = if_then_else(isnullptr(given), shape.data, given)
        strides = self._numbers(f"{buffer.name}_strides", somewhere, buffer)
        self._tensors[param] = _Tensor(tensor, shape, strides, isnullptr(given))

    def _declaration(self, tensor: _Tensor, buffer: Buffer, compare: bool) -> None:
        """Extents, strides and the offset: symbols that have no value yet get it, or all is compared."""
        declared: list[tuple[PrimExpr, PrimExpr, str]] = [
            (extent, BufferLoad(tensor.shape, [const(axis)]), f"shape[{axis}] of {buffer.name}")
            for axis, extent in enumerate(buffer.shape)
        ]
        offset = tvm_struct_get(tensor.handle, 0, Field.BYTE_OFFSET, "uint64")
        size = const(dt.bytes_of(buffer.dtype) * dt.lanes(buffer.dtype), "uint64")
        first = cast("int64", offset // size)
        if isinstance(buffer.elem_offset, Var):
            declared.append((buffer.elem_offset, first, f"byte_offset of {buffer.name}"))
        for declaration, found, what in declared:
            self._agree(declaration, found, what, compare)
        if compare:
            offset_of = const(0, "int64") if buffer.elem_offset is None else cast("int64", buffer.elem_offset)
            whole = logical_and((offset % size).equal(const(0, "uint64")), first.equal(offset_of))
            self._assert(
                whole, f"byte_offset of {buffer.name} should be that of element {buffer.elem_offset or 0}"
            )
        self._strides(tensor, buffer, compare)

    def _strides(self, tensor: _Tensor, buffer: Buffer, compare: bool) -> None:
        """A tensor without strides is dense; the stride of an axis of one element, or of a tensor without, does not matter."""
        dense: PrimExpr = const(1, "int64")
        is_empty: PrimExpr = const(False, "bool")
        for axis in range(len(buffer.shape)):
            is_empty = logical_or(is_empty, BufferLoad(tensor.shape, [const(axis)]).equal(const(0, "int64")))
        for axis in reversed(range(len(buffer.shape))):
            extent = BufferLoad(tensor.shape, [const(axis)])
            given = if_then_else(tensor.is_dense, dense, BufferLoad(tensor.strides, [const(axis)]))
            wanted = buffer.strides[axis] if buffer.strides else dense
            what = f"strides[{axis}] of {buffer.name}"
            if isinstance(wanted, Var) and not compare:
                self._agree(wanted, given, what, compare)
            elif compare:
                unused = logical_or(is_empty, extent <= const(1, "int64"))
                same = given.equal(cast("int64", wanted))
                self._assert(
                    logical_or(unused, same),
                    f"{what} should be {buffer.strides[axis] if buffer.strides else 'dense'}",
                )
            dense = dense * extent

    def _agree(self, declared: PrimExpr, found: PrimExpr, what: str, compare: bool) -> None:
        if compare:
            self._assert(cast("int64", declared).equal(found), f"{what} should be {declared}")
        elif isinstance(declared, Var) and declared not in self._bound:
            self._let(declared, cast(declared.dtype, found))

    def _numbers(self, name: str, address: PrimExpr, buffer: Buffer) -> Buffer:
        """An array of int64, one number for each axis of a buffer."""
        data = self._let(Var(name, PointerType(PrimType("int64"))), address)
        return Buffer(data, "int64", (len(buffer.shape),), name=name)

    def _data(self, tensor: _Tensor, buffer: Buffer) -> None:
        self._let(buffer.data, tvm_struct_get(tensor.handle, 0, Field.DATA, "handle"))
        is_empty: PrimExpr = const(False, "bool")
        for extent in buffer.shape:
            is_empty = logical_or(is_empty, extent.equal(const(0, extent.dtype)))
        self._assert(
            logical_or(is_empty, logical_not(isnullptr(buffer.data))), f"{buffer.name} has no memory"
        )


def _number_kind(dtype: str) -> TypeCode:
    """How a number of a dtype is handed over."""
    if dt.is_float(dtype):
        return TypeCode.FLOAT
    return TypeCode.UINT if dt.is_uint(dtype) else TypeCode.INT


def _wrapper(
    name: str, func: PrimFunc, compute: GlobalVar, params: tuple[Var, ...], device_type: int
) -> PrimFunc:
    """The function of packed arguments that checks them and calls the one that computes."""
    entry = _Entry(name, func, device_type)
    entry.check()
    value, code = Var("out_ret_value", "handle"), Var("out_ret_tcode", PointerType(PrimType("int32")))
    codes = Buffer(code, "int32", (1,), name="out_ret_tcode")
    returned = result_dtype(func)
    called = Call("void" if returned is None else returned, compute, params)
    statements: list[Stmt] = []
    if returned is None:
        kind, statements = TypeCode.NULL, [Evaluate(called)]
    else:
        kind = _number_kind(returned)
        wide = cast(_WIDE[kind], called)
        statements = [Evaluate(tvm_struct_set(value, 0, Field.VALUE, wide))]
    body: Stmt = SeqStmt([*statements, BufferStore(codes, const(int(kind)), [const(0)])])
    for around in reversed(entry.around):
        body = around(body)
    packed = (entry.args, entry.codes.data, entry.count, value, code, Var("resource_handle", "handle"))
    attrs: dict[str, Any] = {"global_symbol": name, CALLING_CONVENTION: PACKED}
    if "target" in func.attrs:
        attrs["target"] = func.attrs["target"]
    return PrimFunc(packed, body, attrs=attrs)


@dataclass(frozen=True)
class MakePackedAPI(ModulePass):
    """Make public host functions take packed arguments: ``int32 f(args, arg_type_ids, num_args, out_ret_value, out_ret_tcode, resource)``.

    ``args`` has 8 bytes for each argument (a number as int64 or float64, the address of a ``DLTensor``), ``arg_type_ids`` says what each
    is (:class:`ir.dlpack_layout.TypeCode`). The function asserts their count and kinds, and of tensors dimensions, dtype, shape, strides,
    offset and device, binds symbols, and calls with addresses what the function was before, which has become private. Calls within
    the module go there at once. What it returns is put where ``out_ret_value`` and ``out_ret_tcode`` say. Kernels, private functions
    and those that have a calling convention stay. Whether tensors overlap, which ``tir.noalias`` forbids, is the caller's to know.

    Before::

        def main(A: T.Buffer((n,), "float32")):
            T.func_attr({"global_symbol": "main"})
            ...

    After::

        def main(args: T.handle, arg_type_ids: T.handle("int32"), num_args: T.int32, ...):
            T.func_attr({"calling_conv": 1, "global_symbol": "main"})
            assert num_args == 1, "main: num_args should be 1"
            assert arg_type_ids[0] == 3 or ..., "main: expects arg[0] (A) to be a tensor"
            A_handle: T.handle = T.tvm_struct_get(args, 0, 12, "handle")
            assert T.tvm_struct_get(A_handle, 0, 4, "int32") == 1, "main: expects arg[0] (A) to have 1 dimensions"
            ...
            n: T.int32 = T.Cast("int32", A_shape[0])
            main_compute_(T.tvm_struct_get(A_handle, 0, 1, "handle"), n)
            out_ret_tcode[0] = 4

        def main_compute_(A: T.handle("float32"), n: T.int32): ...
    """

    pass_name = "tir.MakePackedAPI"

    def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """The module with packed functions and those that compute for them."""
        packed = {
            var: func
            for var, func in mod.functions.items()
            if isinstance(func, PrimFunc)
            and "global_symbol" in func.attrs
            and CALLING_CONVENTION not in func.attrs
        }
        if not packed:
            return mod
        taken = {var.name_hint for var in mod.functions}
        computing = {var: GlobalVar(fresh_name(f"{var.name_hint}_compute_", taken)) for var in packed}
        callee = _Callee(computing)
        functions: dict[GlobalVar, BaseFunc] = {}
        for var, func in mod.functions.items():
            if not isinstance(func, PrimFunc):
                functions[var] = func
                continue
            mapped: PrimFunc = func.replace(body=callee.visit(func.body))
            functions[var] = mapped
            if var in packed:
                bare = unpacked(mapped)
                name, kind = str(func.attrs["global_symbol"]), _device_type(mapped, mod)
                functions[var] = _wrapper(name, mapped, computing[var], bare.params, kind)
                functions[computing[var]] = bare.without_attr("global_symbol")
        return mod.replace(functions=functions)


def _device_type(func: PrimFunc, mod: IRModule) -> int:
    """DLPack's type of the device on which a function's arrays lie: that of its kernels, if it launches some, or of its target."""
    called = _Called()
    called.visit(func.body)
    for kernel in filter(is_kernel, mod.functions.values()):
        if kernel.attrs["global_symbol"] in called.found:
            return int(kernel.attrs["target"].get_target_device_type())
    target = func.attrs.get("target")
    return 1 if target is None else int(target.get_target_device_type())
