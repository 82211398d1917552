"""Instructions for functions that cannot be one native function: symbolic shapes, branches, calls of Python functions.

The instructions are those of :mod:`runners.interpreter`. Both forms of a program are taken: with ``call_tir``, where outputs are
allocated here, and lowered to explicit allocation (CallTIRRewrite, StaticPlanBlockMemory and what follows).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...expr import GlobalVar
from ...module import IRModule
from ...op import Op
from ...tir.expr import IntImm
from ...tir.expr import Var as TirVar
from ...tir.function import PrimFunc
from ...tir.stmt import Evaluate
from ...tir.stmt_functor import substitute
from ..expr import (
    Call,
    Constant,
    DataTypeImm,
    Expr,
    If,
    MatchCast,
    PrimValue,
    SeqExpr,
    ShapeExpr,
    StringImm,
    Tuple,
    TupleGetItem,
    Var,
)
from ..function import ExternFunc, Function
from ..struct_info import PrimStructInfo, ShapeStructInfo, StructInfo, TensorStructInfo, TupleStructInfo
from .native import ConstantTable
from .symbols import BytecodeError, Symbols


class _Compiler:
    """Compiles one function."""

    def __init__(
        self,
        mod: IRModule,
        name: str,
        func: Function,
        constants: ConstantTable,
        symbol_of: Callable[[GlobalVar], str],
    ) -> None:
        self._mod = mod
        self._name = name
        self._func = func
        self._constants = constants
        self._symbol_of = symbol_of
        self._registers: dict[Var, int] = {}
        self._n_registers = 0
        self._symbols = Symbols()
        self._code: list[list[Any]] = []
        self.kernels: dict[str, None] = {}

    def run(self) -> dict[str, Any]:
        func = self._func
        params = []
        for param in func.params:
            self._registers[param] = self._register()
            params.append({"name": param.name_hint, **_described(param.struct_info)})
        pending: list[tuple[int, list[Any], str]] = []
        for param in func.params:
            self._match(self._registers[param], param.struct_info, f"argument {param.name_hint}", pending)
        self._emit_checks(pending)
        result = self._sequence(func.body)
        return {
            "kind": "bytecode",
            "params": params,
            "n_registers": self._n_registers,
            "n_symbols": len(self._symbols.numbers),
            "code": self._code,
            "result": result,
            "kernels": list(self.kernels),
        }

    # ---- registers and checks -------------------------------------------------------------------------------

    def _register(self) -> int:
        self._n_registers += 1
        return self._n_registers - 1

    def _emit(self, *instruction: Any) -> None:
        self._code.append(list(instruction))

    def _match(
        self, reg: int, info: StructInfo | None, context: str, pending: list[tuple[int, list[Any], str]]
    ) -> None:
        """Check a value's kind, bind symbolic variables, and note the extents to compare once all are bound."""
        if isinstance(info, TensorStructInfo):
            dims = info.shape_values
            binds = self._binds(dims)
            self._emit("match", reg, "tensor", info.dtype, info.ndim, binds, context)
            pending.append((reg, self._unbound_dims(dims, binds), context))
        elif isinstance(info, ShapeStructInfo):
            binds = self._binds(info.values)
            self._emit("match", reg, "shape", "", info.ndim, binds, context)
            pending.append((reg, self._unbound_dims(info.values, binds), context))
        elif isinstance(info, PrimStructInfo):
            values = None if info.value is None else (info.value,)
            binds = self._binds(values)
            self._emit("match", reg, "prim", info.dtype, -1, binds, context)
            pending.append((reg, self._unbound_dims(values, binds), context))
        elif isinstance(info, TupleStructInfo):
            self._emit("match", reg, "tuple", "", len(info.fields), [], context)
            for index, field in enumerate(info.fields):
                part = self._register()
                self._emit("get", part, reg, index)
                self._match(part, field, f"{context}[{index}]", pending)

    def _binds(self, dims: Any) -> list[list[int]]:
        binds = []
        for axis, dim in enumerate(dims or ()):
            if isinstance(dim, TirVar) and dim not in self._symbols.numbers:
                binds.append([axis, self._symbols.number(dim)])
        return binds

    def _unbound_dims(self, dims: Any, binds: list[list[int]]) -> list[Any]:
        bound = {axis for axis, _ in binds}
        return [(axis, dim) for axis, dim in enumerate(dims or ()) if axis not in bound]

    def _emit_checks(self, pending: list[tuple[int, list[Any], str]]) -> None:
        for reg, dims, context in pending:
            checks = [[axis, self._symbols.source(dim)] for axis, dim in dims if self._symbols.knows(dim)]
            if checks:
                self._emit("check_dims", reg, checks, context)

    # ---- bindings -------------------------------------------------------------------------------------------

    def _sequence(self, seq: SeqExpr) -> int:
        for block in seq.blocks:
            for binding in block.bindings:
                value: Expr = binding.value  # type: ignore[attr-defined]
                reg = self._value(value, binding.var)
                if isinstance(value, Var):
                    # a register of its own, for the program says of each variable where it ends
                    self._emit("move", self._register(), reg)
                    reg = self._n_registers - 1
                if isinstance(binding, MatchCast):
                    pending: list[tuple[int, list[Any], str]] = []
                    self._match(reg, binding.struct_info, f"the value of {binding.var.name_hint}", pending)
                    self._emit_checks(pending)
                self._registers[binding.var] = reg
        return self._value(seq.body)

    def _value(self, value: Expr, var: Var | None = None) -> int:
        """The register that holds a value, computing it where necessary."""
        if isinstance(value, Var):
            if value not in self._registers:
                raise BytecodeError(
                    f"{self._name}: variable {value.name_hint} is not bound; run LambdaLift on local functions"
                )
            return self._registers[value]
        dst = self._register()
        if isinstance(value, Constant):
            self._emit("const", dst, self._constants.number(value.data))
        elif isinstance(value, Tuple):
            self._emit("tuple", dst, [self._value(item) for item in value.fields])
        elif isinstance(value, TupleGetItem):
            self._emit("get", dst, self._value(value.tuple_value), value.index)
        elif isinstance(value, ShapeExpr):
            self._emit("shape", dst, [self._symbols.source(dim) for dim in value.values])
        elif isinstance(value, PrimValue):
            self._emit("prim", dst, self._symbols.source(value.value))
        elif isinstance(value, StringImm | DataTypeImm):
            self._emit("value", dst, value.value)
        elif isinstance(value, If):
            self._branch(dst, value)
        elif isinstance(value, GlobalVar):
            self._emit("closure", dst, value.name_hint, [])
        elif isinstance(value, Call):
            return self._call(dst, value, var)
        else:
            raise BytecodeError(
                f"{self._name}: cannot run a {type(value).__name__}; run LambdaLift on local functions"
            )
        return dst

    def _branch(self, dst: int, value: If) -> None:
        cond = self._value(value.cond)
        outer = self._code
        known = dict(self._symbols.numbers)
        parts: list[Any] = []
        for branch in (value.true_branch, value.false_branch):
            self._code = []
            reg = self._sequence(branch)
            parts += [self._code, reg]
            # Numbers stay taken, but what a branch binds is not known after it.
            taken = len(self._symbols.numbers)
            self._symbols.numbers = {
                **known,
                **{TirVar(f"_{i}", "int64"): i for i in range(len(known), taken)},
            }
        self._code = outer
        self._emit("if", dst, cond, *parts)

    # ---- calls ----------------------------------------------------------------------------------------------

    def _call(self, dst: int, call: Call, var: Var | None) -> int:
        op = call.op
        if isinstance(op, Op):
            return self._operator(dst, call, var)
        if isinstance(op, GlobalVar):
            callee = self._mod[op]
            if isinstance(callee, PrimFunc):
                returned = _returned_value(callee)
                if returned is not None:
                    return self._host_function(dst, callee, returned, call)
                self._kernel(op, callee, list(call.args), None)
                self._emit("value", dst, [])
            else:
                self._emit("call", dst, op.name_hint, [self._value(arg) for arg in call.args])
        elif isinstance(op, ExternFunc):
            return self._extern(dst, op.global_symbol, list(call.args), call, var)
        elif isinstance(op, Var):
            self._emit("invoke", dst, self._value(op), [self._value(arg) for arg in call.args])
        else:
            raise BytecodeError(f"{self._name}: cannot call a {type(op).__name__}")
        return dst

    def _host_function(self, dst: int, callee: PrimFunc, returned: Any, call: Call) -> int:
        """A function of scalars that returns an expression of them is computed here, without a kernel."""
        values: dict[TirVar, Any] = {}
        for param, arg in zip(callee.params, call.args, strict=True):
            if isinstance(arg, PrimValue):
                values[param] = arg.value
            else:
                values[param] = TirVar(param.name, param.dtype)
                self._emit("read_prim", self._value(arg), self._symbols.number(values[param]))
        self._emit("prim", dst, self._symbols.source(substitute(returned, values)))
        return dst

    def _extern(self, dst: int, name: str, args: list[Expr], call: Call, var: Var | None) -> int:
        builtin = _EXTERN_BUILTINS.get(name)
        if builtin == "reshape":
            return self._reshape(dst, args[0], args[1])
        if name == "vm.builtin.make_closure":
            self._emit("closure", dst, args[0].name_hint, [self._value(item) for item in args[1:]])  # type: ignore[attr-defined]
        elif name == "vm.builtin.invoke_closure":
            self._emit("invoke", dst, self._value(args[0]), [self._value(item) for item in args[1:]])
        elif builtin is not None:
            self._emit("builtin", dst, builtin, [self._value(arg) for arg in args])
        else:
            self._emit("packed", dst, name, [self._value(arg) for arg in args])
        return dst

    def _reshape(self, dst: int, source: Expr, shape: Expr) -> int:
        reg = self._value(source)
        if isinstance(shape, ShapeExpr):
            self._emit("reshape", dst, reg, [self._symbols.source(dim) for dim in shape.values])
        else:
            self._emit("reshape", dst, reg, self._value(shape))
        return dst

    def _operator(self, dst: int, call: Any, var: Var | None) -> int:
        name = call.op.name
        args = call.args
        if name == "relax.call_tir":
            return self._call_tir(dst, call)
        if name == "relax.vm.call_tir_dyn":
            self._kernel(args[0], self._mod[args[0]], list(_fields(args[1])), None)  # type: ignore[arg-type]
            self._emit("value", dst, [])
            return dst
        if name == "relax.call_tir_inplace":
            return self._call_tir_inplace(dst, call)
        if name == "relax.call_dps_packed":
            outputs = self._outputs(dst, call.sinfo_args[0])
            given = [self._value(item) for item in _fields(args[1])]
            self._emit("dps_packed", _symbol(args[0]), given + outputs)
            return dst
        if name in ("relax.call_pure_packed", "relax.call_inplace_packed"):
            return self._extern(dst, _symbol(args[0]), list(args[1:]), call, var)
        if name == "relax.call_builtin_with_ctx":
            return self._extern(dst, _symbol(args[0]), list(_fields(args[1])), call, var)
        if name in ("relax.builtin.alloc_tensor", "relax.memory.alloc_tensor", "relax.vm.alloc_tensor"):
            return self._alloc_tensor(dst, name, call)
        if name in ("relax.memory.alloc_storage", "relax.vm.alloc_storage"):
            size = self._extents(args[0])
            if len(size) != 1:
                raise BytecodeError(
                    f"{self._name}: alloc_storage takes a size in bytes as a one-element shape"
                )
            self._emit("storage", dst, self._symbols.source(size[0]))
            return dst
        if name in ("relax.memory.kill_storage", "relax.memory.kill_tensor", "relax.vm.kill_object"):
            self._emit("kill", [self._value(args[0])])
            self._emit("value", dst, [])
            return dst
        if name in _OP_BUILTINS:
            values = [self._value(arg) for arg in args]
            if name == "relax.print" or name == "relax.assert_op":
                values = self._format_arguments(name, call)
            self._emit("builtin", dst, _OP_BUILTINS[name], values)
            return dst
        packed = call.op.get_attr("FCallPacked")
        if packed is not None:
            self._emit("packed", dst, str(packed), [self._value(arg) for arg in args])
            return dst
        raise BytecodeError(
            f"{self._name}: operator {name} is not lowered; run LegalizeOps, and see its warnings for what it leaves"
        )

    def _format_arguments(self, name: str, call: Call) -> list[int]:
        """assert and print take the format behind (or before) the values that it shows."""
        given = [arg for arg in call.args if not isinstance(arg, StringImm)]
        texts = [arg for arg in call.args if isinstance(arg, StringImm)]
        text: Expr = texts[0] if texts else StringImm(str(call.attrs.get("format", "")))
        ordered = [given[0], text, *given[1:]] if name == "relax.assert_op" else [text, *given]
        return [self._value(arg) for arg in ordered]

    def _view(self, dst: int, call: Call, var: Var | None) -> int:
        info = (
            call.struct_info_
            if call.struct_info_ is not None
            else (var.struct_info if var is not None else None)
        )
        source = self._value(call.args[0])
        dims = info.shape_values if isinstance(info, TensorStructInfo) else None
        if dims is not None:
            self._emit("reshape", dst, source, [self._symbols.source(dim) for dim in dims])
        elif len(call.args) > 1:
            self._emit("reshape", dst, source, self._value(call.args[1]))
        else:
            self._emit("move", dst, source)
        return dst

    def _alloc_tensor(self, dst: int, name: str, call: Any) -> int:
        args = call.args
        if name == "relax.builtin.alloc_tensor":
            shape, dtype = args[0], args[1]
            self._emit("empty", dst, [self._symbols.source(dim) for dim in self._extents(shape)], dtype.value)
            return dst
        storage, offset, shape, dtype = args[:4]
        self._emit(
            "tensor",
            dst,
            self._value(storage),
            self._symbols.source(offset.value),
            [self._symbols.source(dim) for dim in self._extents(shape)],
            dtype.value,
        )
        return dst

    def _extents(self, shape: Any) -> tuple[Any, ...]:
        """The extents of a shape; one that is a value is read into new symbols."""
        if isinstance(shape, ShapeExpr):
            return shape.values
        info = shape.struct_info_
        if not isinstance(info, ShapeStructInfo) or info.ndim < 0:
            raise BytecodeError(f"{self._name}: an allocation needs a shape of known length, got {info}")
        symbols = [TirVar(f"extent{axis}", "int64") for axis in range(info.ndim)]
        binds = [[axis, self._symbols.number(symbol)] for axis, symbol in enumerate(symbols)]
        self._emit("match", self._value(shape), "shape", "", info.ndim, binds, "a computed shape")
        return tuple(symbols)

    def _outputs(self, dst: int, info: StructInfo) -> list[int]:
        """Allocate what a call writes; ``dst`` becomes the tensor or the tuple of tensors."""
        if isinstance(info, TupleStructInfo):
            regs = []
            for field in info.fields:
                part = self._register()
                regs += self._outputs(part, field)
            self._emit("tuple", dst, regs)
            return regs
        if not isinstance(info, TensorStructInfo) or info.shape_values is None:
            raise BytecodeError(f"{self._name}: the output {info} of a call needs a known shape")
        self._emit("empty", dst, [self._symbols.source(dim) for dim in info.shape_values], info.dtype)
        return [dst]

    def _call_tir(self, dst: int, call: Call) -> int:
        kernel = call.args[0]
        if not isinstance(kernel, GlobalVar):
            raise BytecodeError(f"{self._name}: call_tir must call a PrimFunc of the module")
        outputs = self._outputs(dst, call.sinfo_args[0])
        args: list[Expr | int] = list(_fields(call.args[1]))
        infos = [_info_of(item) for item in args] + _tensor_infos(call.sinfo_args[0])
        args += outputs
        if len(call.args) > 2:
            args.append(call.args[2])
        self._kernel(kernel, self._mod[kernel], args, infos)  # type: ignore[arg-type]
        return dst

    def _call_tir_inplace(self, dst: int, call: Any) -> int:
        kernel = call.args[0]
        given = list(_fields(call.args[1]))
        infos = _tensor_infos(call.sinfo_args[0])
        indices = [int(getattr(item, "value", item)) for item in call.attrs.inplace_indices]
        args: list[Expr | int] = list(given)
        shown = [_info_of(item) for item in given]
        made: list[int] = []
        for info, index in zip(infos, indices, strict=True):
            if index >= 0:
                made.append(self._value(given[index]))
            else:
                reg = self._register()
                made += self._outputs(reg, info)
                args.append(reg)
                shown.append(info)
        if len(call.args) > 2:
            args.append(call.args[2])
        self._kernel(kernel, self._mod[kernel], args, shown)  # type: ignore[arg-type]
        if isinstance(call.sinfo_args[0], TupleStructInfo):
            self._emit("tuple", dst, made)
        else:
            self._emit("move", dst, made[0])
        return dst

    def _kernel(self, var: GlobalVar, callee: PrimFunc, args: list[Any], infos: list[Any] | None) -> None:
        """Emit a kernel call: buffers, scalars, then the symbolic extents that the kernel's buffers imply."""
        buffers: list[int] = []
        dims: list[Any] = []
        scalars: list[Any] = []
        for position, arg in enumerate(args):
            if isinstance(arg, ShapeExpr):
                scalars += arg.values
            elif isinstance(_info_of(arg), ShapeStructInfo):
                scalars += self._extents(arg)
            elif isinstance(arg, PrimValue):
                scalars.append(arg.value)
            else:
                buffers.append(arg if isinstance(arg, int) else self._value(arg))
                info = infos[position] if infos is not None and position < len(infos) else _info_of(arg)
                dims.append(info.shape_values if isinstance(info, TensorStructInfo) else None)
        handles = [param for param in callee.params if param in callee.buffer_map]
        plain = [param for param in callee.params if param not in callee.buffer_map]
        if len(handles) != len(buffers) or len(plain) != len(scalars):
            raise BytecodeError(
                f"{self._name}: {var.name_hint} takes {len(handles)} buffers and {len(plain)} scalars,"
                f" the call gives {len(buffers)} and {len(scalars)}"
            )
        operands: list[Any] = list(buffers)
        operands += [
            [self._symbols.source(value), param.dtype] for param, value in zip(plain, scalars, strict=True)
        ]
        given = set(plain)
        for handle, actual in zip(handles, dims, strict=True):
            for axis, extent in enumerate(callee.buffer_map[handle].shape):
                if isinstance(extent, TirVar) and extent not in given:
                    given.add(extent)
                    if actual is None:
                        raise BytecodeError(
                            f"{self._name}: the extent {extent.name} of {var.name_hint} is not known"
                        )
                    operands.append([self._symbols.source(actual[axis]), "int64"])
        symbol = self._symbol_of(var)
        self.kernels.setdefault(symbol)
        self._emit("kernel", symbol, operands)


_OP_BUILTINS = {
    "relax.shape_of": "shape_of",
    "relax.tensor_to_shape": "tensor_to_shape",
    "relax.shape_to_tensor": "shape_to_tensor",
    "relax.null_value": "null_value",
    "relax.print": "print",
    "relax.assert_op": "assert",
    "relax.to_vdevice": "to_device",
    "relax.hint_on_device": "to_device",
    "relax.builtin.stop_lift_params": "to_device",
}
_EXTERN_BUILTINS = {
    "vm.builtin.shape_of": "shape_of",
    "vm.builtin.tensor_to_shape": "tensor_to_shape",
    "vm.builtin.reshape": "reshape",
    "vm.builtin.copy": "copy",
    "vm.builtin.null_value": "null_value",
    "vm.builtin.to_device": "to_device",
    "relax.run.shape_to_tensor": "shape_to_tensor",
    "vm.builtin.alloc_shape_heap": "alloc_shape_heap",
    "vm.builtin.check_tensor_info": "check_tensor_info",
    "vm.builtin.check_shape_info": "check_shape_info",
    "vm.builtin.check_tuple_info": "check_tuple_info",
    "vm.builtin.check_prim_value_info": "check_prim_value_info",
    "vm.builtin.check_func_info": "check_func_info",
    "vm.builtin.match_shape": "match_shape",
    "vm.builtin.match_prim_value": "match_prim_value",
    "vm.builtin.make_shape": "make_shape",
    "vm.builtin.make_prim_value": "make_prim_value",
    "relax.run.print": "print",
    "relax.run.assert_op": "assert",
}


def _returned_value(func: PrimFunc) -> Any:
    """The expression that a PrimFunc of scalars returns, None for kernels."""
    body = func.body
    if func.buffer_map or not isinstance(body, Evaluate):
        return None
    value = body.value
    return value.args[0] if getattr(getattr(value, "op", None), "name", "") == "tir.ret" else None  # type: ignore[attr-defined]


def _described(info: StructInfo) -> dict[str, Any]:
    if isinstance(info, TensorStructInfo):
        dims = info.shape_values
        shape = None if dims is None else [_shown_extent(dim) for dim in dims]
        return {"shape": shape, "dtype": info.dtype}
    if isinstance(info, TupleStructInfo):
        return {"fields": [_described(field) for field in info.fields]}
    return {"kind": type(info).__name__.removesuffix("StructInfo").lower()}


def _shown_extent(dim: Any) -> int | str:
    return dim.value if isinstance(dim, IntImm) else str(getattr(dim, "name", "?"))


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


def _tensor_infos(info: StructInfo) -> list[StructInfo]:
    return list(info.fields) if isinstance(info, TupleStructInfo) else [info]


def _info_of(value: Any) -> StructInfo | None:
    return getattr(value, "struct_info_", None)


def compile_bytecode(
    mod: IRModule, name: str, func: Function, constants: ConstantTable, symbol_of: Callable[[GlobalVar], str]
) -> dict[str, Any]:
    """The description of a function with its instructions, as plain data.

    Args:
        symbol_of: the symbol of a PrimFunc in the compiled code.

    Raises:
        BytecodeError: a construct has to be lowered before.
    """
    return _Compiler(mod, name, func, constants, symbol_of).run()
