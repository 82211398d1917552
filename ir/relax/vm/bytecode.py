"""Instructions for functions that cannot be one native function: symbolic shapes, branches, calls of Python functions.

The function is what the lowering passes (:mod:`ir.relax.pipeline`) left: explicit memory, calls of kernels and of the machine's own
functions, shapes that are computed by kernels. An instruction is one binding of it; :mod:`runners.interpreter` runs them.
"""

from __future__ import annotations

from collections.abc import Container, Iterator
from typing import Any

from ...codegen.llvm.signature import result_dtype, symbols_of
from ...error import IRError
from ...expr import GlobalVar
from ...module import IRModule
from ...op import Op
from ...tir.buffer import Buffer
from ...tir.expr import IntImm
from ...tir.expr import Var as TirVar
from ...tir.function import PrimFunc
from ..analysis.memory import MemoryAnalysis
from ..analysis.operands_apart import OperandsApart
from ..devices import device_number
from ..expr import (
    Call,
    Constant,
    DataTypeImm,
    Expr,
    If,
    PrimValue,
    SeqExpr,
    ShapeExpr,
    StringImm,
    Tuple,
    TupleGetItem,
    Var,
)
from ..function import ExternFunc, Function
from ..op.memory_effect import Path
from ..struct_info import PrimStructInfo, ShapeStructInfo, StructInfo, TensorStructInfo, TupleStructInfo
from .kernels import CompiledKernels
from .native import ConstantTable

Operand = int | list[Any]
"""A register, or a literal as the only element of a list (a shape is a list in it)."""


class BytecodeError(IRError):
    """A construct that the virtual machine cannot run; the message says which pass removes it."""


class _Compiler:
    """Compiles one function."""

    def __init__(
        self,
        mod: IRModule,
        name: str,
        func: Function,
        constants: ConstantTable,
        compiled: CompiledKernels,
    ) -> None:
        self._mod = mod
        self._name = name
        self._func = func
        self._constants = constants
        self._compiled = compiled
        self._registers: dict[Var, int] = {}
        self._n_registers = 0
        self._code: list[list[Any]] = []
        self.kernels: dict[str, None] = {}
        self._result_dtypes: dict[PrimFunc, str | None] = {}

    def run(self) -> dict[str, Any]:
        func = self._func
        params = []
        memory = MemoryAnalysis(self._mod, suspicious=False)
        written = set(memory.summary(func).writes)
        apart = OperandsApart(memory).of_function(func)
        for number, param in enumerate(func.params):
            self._registers[param] = self._register()
            described = _described(param.struct_info, (number,), written)
            params.append({"name": param.name_hint, **described})
        result = self._sequence(func.body)
        return {
            "kind": "bytecode",
            "params": params,
            "n_registers": self._n_registers,
            "code": self._code,
            "result": result,
            "kernels": list(self.kernels),
            **({"apart": [[list(path) for path in pair] for pair in apart]} if apart else {}),
        }

    def _register(self) -> int:
        self._n_registers += 1
        return self._n_registers - 1

    def _emit(self, *instruction: Any) -> None:
        self._code.append(list(instruction))

    # ---- bindings and values --------------------------------------------------------------------------------

    def _sequence(self, seq: SeqExpr) -> int:
        for block in seq.blocks:
            for binding in block.bindings:
                # Each variable has a register of its own, for the program says of each where it ends.
                dst = self._registers[binding.var] = self._register()
                self._bind(dst, binding.value)  # type: ignore[attr-defined]
        return self._in_register(seq.body)

    def _bind(self, dst: int, value: Expr) -> None:
        if isinstance(value, Call):
            self._call(dst, value)
        elif isinstance(value, Constant):
            self._emit("const", dst, self._constants.number(value.data))
        elif isinstance(value, Tuple):
            self._emit("tuple", dst, self._operands(value.fields))
        elif isinstance(value, TupleGetItem):
            self._emit("get", dst, self._in_register(value.tuple_value), value.index)
        elif isinstance(value, If):
            self._branch(dst, value)
        elif isinstance(value, GlobalVar):
            self._emit("closure", dst, value.name_hint, [])
        elif isinstance(value, Var | ShapeExpr | PrimValue | StringImm | DataTypeImm):
            self._emit("move", dst, self._operand(value))
        else:
            raise BytecodeError(
                f"{self._name}: cannot run a {type(value).__name__}; run LambdaLift on local functions"
            )

    def _operand(self, value: Expr) -> Operand:
        """The register that holds a value, or the literal that it is."""
        if isinstance(value, Var):
            if value not in self._registers:
                raise BytecodeError(
                    f"{self._name}: variable {value.name_hint} is not bound; run LambdaLift on local functions"
                )
            return self._registers[value]
        if isinstance(value, StringImm | DataTypeImm):
            return [value.value]
        if isinstance(value, ShapeExpr):
            return [[self._number(dim) for dim in value.values]]
        if isinstance(value, PrimValue):
            return [self._number(value.value)]
        dst = self._register()
        self._bind(dst, value)
        return dst

    def _operands(self, values: Any) -> list[Operand]:
        return [self._operand(value) for value in values]

    def _in_register(self, value: Expr) -> int:
        operand = self._operand(value)
        if isinstance(operand, int):
            return operand
        dst = self._register()
        self._emit("move", dst, operand)
        return dst

    def _number(self, expr: Any) -> int | float:
        number = getattr(expr, "value", None)
        if not isinstance(number, int | float):
            raise BytecodeError(f"{self._name}: {expr} is computed at run time; run VMShapeLower")
        return number

    def _branch(self, dst: int, value: If) -> None:
        cond = self._in_register(value.cond)
        outer = self._code
        parts: list[Any] = []
        for branch in (value.true_branch, value.false_branch):
            self._code = []
            reg = self._sequence(branch)
            parts += [self._code, reg]
        self._code = outer
        self._emit("if", dst, cond, *parts)

    # ---- calls ----------------------------------------------------------------------------------------------

    def _call(self, dst: int, call: Call) -> None:
        op = call.op
        if isinstance(op, Op):
            self._operator(dst, op.name, call)
        elif isinstance(op, GlobalVar):
            if isinstance(self._mod[op], PrimFunc):
                self._kernel(dst, op, call.args)
            else:
                self._emit("call", dst, op.name_hint, self._operands(call.args))
        elif isinstance(op, ExternFunc):
            self._external(dst, op.global_symbol, call.args, call.struct_info_)
        elif isinstance(op, Var):
            self._emit("invoke", dst, self._operand(op), self._operands(call.args))
        else:
            raise BytecodeError(f"{self._name}: cannot call a {type(op).__name__}")

    def _operator(self, dst: int, name: str, call: Call) -> None:
        args = call.args
        if name == "relax.vm.alloc_storage":
            self._emit("storage", dst, self._operand(args[0]), self._number(args[1].value))  # type: ignore[attr-defined]
        elif name == "relax.vm.alloc_tensor":
            storage, offset, shape = self._operands(args[:3])
            self._emit("tensor", dst, storage, offset, shape, args[3].value)  # type: ignore[attr-defined]
        elif name == "relax.vm.kill_object":
            self._emit("kill", self._in_register(args[0]))
        elif name == "relax.vm.call_tir_dyn":
            self._kernel(dst, args[0], _fields(args[1]))
        elif name == "relax.call_builtin_with_ctx":
            self._external(dst, _symbol(args[0]), _fields(args[1]))
        elif name == "relax.null_value":
            self._emit("move", dst, [None])
        else:
            raise BytecodeError(f"{self._name}: operator {name} is not lowered{_why_not_lowered(call)}")

    def _external(self, dst: int, name: str, args: Any, info: StructInfo | None = None) -> None:
        if name == "vm.builtin.make_closure":
            self._emit("closure", dst, args[0].name_hint, self._operands(args[1:]))
        elif name == "vm.builtin.invoke_closure":
            self._emit("invoke", dst, self._operand(args[0]), self._operands(args[1:]))
        elif info is None:
            self._emit("packed", dst, name, self._operands(args))
        else:
            self._emit("packed", dst, name, self._operands(args), _described(info, (), ()))

    def _kernel(self, dst: int, var: Any, args: Any) -> None:
        """A kernel call in the order of its C signature: parameters, symbols that buffers imply, the result's place."""
        callee: Any = self._mod[var]
        given = [item for arg in args for item in self._kernel_operands(arg)]
        if len(given) != len(callee.params):
            raise BytecodeError(
                f"{self._name}: {var.name_hint} takes {len(callee.params)} arguments, the call gives {len(given)}"
            )
        operands: list[list[Any]] = [["queue"]] if self._compiled.launches(var) else []
        symbols: dict[Any, list[Any]] = {symbol: [] for symbol in symbols_of(callee)}
        for param, (kind, *where) in zip(callee.params, given, strict=True):
            buffer = callee.buffer_map.get(param)
            if (buffer is not None or param.dtype == "handle") != (kind == "buffer"):
                raise BytecodeError(
                    f"{self._name}: {var.name_hint} gets a {kind} for its parameter {param.name}"
                )
            operands.append(["buffer", *where] if kind == "buffer" else [kind, *where, param.dtype])
            for symbol, source in _symbols_of_buffer(buffer, where) if buffer is not None else ():
                symbols[symbol] = symbols[symbol] or source
        operands += [source for symbol, source in symbols.items() if symbol not in callee.params]
        if callee not in self._result_dtypes:
            self._result_dtypes[callee] = result_dtype(callee)
        returned = self._result_dtypes[callee]
        symbol = self._compiled.symbol_of(var)
        self.kernels.setdefault(symbol)
        self._emit("kernel", dst, symbol, operands if returned is None else [*operands, ["result", returned]])

    def _kernel_operands(self, arg: Expr) -> list[list[Any]]:
        """What a kernel gets for an argument; a shape is one number per extent."""
        info = arg.struct_info
        if isinstance(arg, ShapeExpr):
            return [["number", [self._number(dim)]] for dim in arg.values]
        if isinstance(info, ShapeStructInfo):
            shape = self._in_register(arg)
            return [["extent", shape, axis] for axis in range(info.ndim)]
        if isinstance(info, PrimStructInfo):
            return [["number", self._operand(arg)]]
        return [["buffer", self._in_register(arg)]]


def _symbols_of_buffer(buffer: Buffer, where: list[Any]) -> Iterator[tuple[Any, list[Any]]]:
    """The symbols that a buffer declares, with what tells them of the array: tensors are dense and begin at their first element."""
    for axis, extent in enumerate(buffer.shape):
        if isinstance(extent, TirVar):
            yield extent, ["extent", *where, axis, "int64"]
    for axis, stride in enumerate(buffer.strides):
        if isinstance(stride, TirVar):
            yield stride, ["stride", *where, axis, "int64"]
    if isinstance(buffer.elem_offset, TirVar):
        yield buffer.elem_offset, ["number", [0], "int64"]


def _described(info: StructInfo, path: Path, written: Container[Path]) -> dict[str, Any]:
    """A parameter (or the field of one at ``path``) as plain data."""
    if isinstance(info, TensorStructInfo):
        dims = info.shape_values
        shape = None if dims is None else [_shown_extent(dim) for dim in dims]
        described: dict[str, Any] = {"shape": shape, "dtype": info.dtype}
        if number := device_number(info.vdevice):
            described["device"] = number
        return {**described, "written": True} if path in written else described
    if isinstance(info, TupleStructInfo):
        fields = enumerate(info.fields)
        return {"fields": [_described(field, (*path, index), written) for index, field in fields]}
    if isinstance(info, PrimStructInfo):
        return {"kind": "prim", "dtype": info.dtype}
    return {"kind": type(info).__name__.removesuffix("StructInfo").lower()}


def _shown_extent(dim: Any) -> int | str:
    return dim.value if isinstance(dim, IntImm) else str(getattr(dim, "name", "?"))


def _why_not_lowered(call: Call) -> str:
    """Why an operator is still there: a shape that is not known while the program is built, or no pass that lowers it."""
    values = [*enumerate(call.args), ("the result", call)]
    for place, value in values:
        info = value.struct_info_
        if isinstance(info, TensorStructInfo) and info.shape_values is None:
            what = place if isinstance(place, str) else f"argument {place}"
            given = ", ".join(str(arg.struct_info_) for arg in call.args)
            return (
                f": the shape of {what} is not known while the program is built (the arguments are {given});"
                " say with R.match_cast what it is, or which extents of the arguments are equal"
            )
    return "; run LegalizeOps, and see its warnings for what it leaves"


def _symbol(expr: Expr) -> str:
    return (
        expr.global_symbol
        if isinstance(expr, ExternFunc)
        else str(getattr(expr, "value", getattr(expr, "name_hint", expr)))
    )


def _fields(expr: Expr) -> tuple[Expr, ...]:
    if isinstance(expr, Tuple):
        return expr.fields
    info = expr.struct_info_
    if isinstance(info, TupleStructInfo):
        return tuple(TupleGetItem(expr, index) for index in range(len(info.fields)))
    return (expr,)


def compile_bytecode(
    mod: IRModule, name: str, func: Function, constants: ConstantTable, compiled: CompiledKernels
) -> dict[str, Any]:
    """The description of a lowered function with its instructions, as plain data.

    Args:
        compiled: the PrimFuncs of the module as compiled code.

    Raises:
        BytecodeError: a construct has to be lowered before.
    """
    return _Compiler(mod, name, func, constants, compiled).run()
