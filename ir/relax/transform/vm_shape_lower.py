"""VMShapeLower: symbolic shapes become numbers in a table that the program fills, computes with, and reads."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from ... import tir
from ...expr import GlobalVar
from ...module import IRModule
from ...op import Op
from ...structural import structural_equal
from ...tir import BufferStore, PrimFunc, SeqStmt
from ...tir import const as tir_const
from ...tir.functor import substitute
from ...transform import ModulePass, PassContext
from ..expr import (
    Binding,
    Call,
    DataTypeImm,
    Expr,
    MatchCast,
    PrimValue,
    ShapeExpr,
    StringImm,
    Tuple,
    TupleGetItem,
    Var,
    VarBinding,
)
from ..function import ExternFunc, Function
from ..struct_info import (
    FuncStructInfo,
    ObjectStructInfo,
    PrimStructInfo,
    ShapeStructInfo,
    StructInfo,
    TensorStructInfo,
    TupleStructInfo,
)
from .binding_rewriter import BindingRewriter, kernel_var
from .grouping import NameTable, tir_vars_of


class MatchShapeCode(IntEnum):
    """What ``vm.builtin.match_shape`` does with an extent."""

    ASSERT_EQUAL_TO_IMM = 0
    STORE_TO_HEAP = 1
    NO_OP = 2
    ASSERT_EQUAL_TO_LOAD = 3


class MakeShapeCode(IntEnum):
    """Where ``vm.builtin.make_shape`` takes an extent from."""

    USE_IMM = 0
    LOAD_SHAPE = 1


_NOTHING = TupleStructInfo(())


class _Slots:
    """Places of symbolic expressions in the table, in the order in which they are met."""

    def __init__(self) -> None:
        self.exprs: list[Any] = []
        self.known: set[int] = set()

    def number(self, expr: Any) -> int:
        """The place of an expression; equal ones share it."""
        for number, other in enumerate(self.exprs):
            if other is expr or structural_equal(other, expr):
                return number
        self.exprs.append(expr)
        return len(self.exprs) - 1


class _Lowerer(BindingRewriter):
    def __init__(
        self, mod: IRModule, names: NameTable, functions: dict[GlobalVar, Any], errors: bool
    ) -> None:
        super().__init__(mod)
        self._names_free = names
        self._functions = functions
        self._errors = errors
        self._slots = _Slots()
        self._heap = Var("shape_heap", TensorStructInfo(None, "int64", ndim=1))
        self._heap_size = tir.Var("heap_size", "int64")
        self._computing: list[GlobalVar] = []

    # ---- the function -----------------------------------------------------------------------------------------

    def lower(self, func: Function) -> Function:
        """The lowered function."""
        from ..expr import BindingBlock, SeqExpr

        self._emitted, self._in_dataflow = [], False
        for param in func.params:
            self._check(
                param, param.struct_info, f"ErrorContext(fn={self._name(func)}, param={param.name_hint})"
            )
        for param in func.params:
            self._match(
                param, param.struct_info, f"ErrorContext(fn={self._name(func)}, param={param.name_hint})"
            )
        self._compute_ready()
        checks = list(self._emitted)
        body = self.visit_seq(func.body)
        if self._slots.exprs:
            size = (PrimValue(len(self._slots.exprs)),)
            args = (ExternFunc("vm.builtin.alloc_shape_heap"), Tuple(size))
            info = self._heap.struct_info
            heap: Expr = Call(Op.get("relax.call_builtin_with_ctx"), args, None, [info], None, info)
            first: list[Binding] = [VarBinding(self._heap, heap)]
        else:
            null = Var("shape_heap", ObjectStructInfo())
            first = [
                VarBinding(null, Call(Op.get("relax.null_value"), (), None, None, None, ObjectStructInfo()))
            ]
        for var in self._computing:  # how large the table is, is known only now
            size_now = {self._heap_size: tir_const(len(self._slots.exprs), "int64")}
            self._functions[var] = substitute(self._functions[var], size_now)
        blocks = list(body.blocks)
        opening = [*first, *checks]
        if blocks and type(blocks[0]) is BindingBlock:
            blocks[0] = BindingBlock([*opening, *blocks[0].bindings])
        else:
            blocks.insert(0, BindingBlock(opening))
        seq = SeqExpr(blocks, body.body, body.body.struct_info_)
        return Function(func.params, seq, func.ret_struct_info, func.is_pure, func.attrs, func.span)

    def _name(self, func: Function) -> str:
        return str(func.attrs.get("global_symbol", ""))

    # ---- checks and matching ----------------------------------------------------------------------------------

    def _packed(self, name: str, *args: Expr) -> None:
        context = args[-1]
        if isinstance(context, StringImm) and not self._errors:
            args = (*args[:-1], StringImm(""))
        self.emit(Call(ExternFunc(name), args, None, [_NOTHING], None, _NOTHING), "_")

    def _check(self, value: Expr, info: StructInfo, context: str) -> None:
        """Calls that check the kind of a value."""
        text = StringImm(context)
        if isinstance(info, TensorStructInfo):
            dtype: Expr = DataTypeImm(info.dtype or "void")
            self._packed("vm.builtin.check_tensor_info", value, PrimValue(info.ndim), dtype, text)
        elif isinstance(info, ShapeStructInfo):
            self._packed("vm.builtin.check_shape_info", value, PrimValue(info.ndim), text)
        elif isinstance(info, PrimStructInfo):
            self._packed("vm.builtin.check_prim_value_info", value, DataTypeImm(info.dtype), text)
        elif isinstance(info, FuncStructInfo):
            self._packed("vm.builtin.check_func_info", value, text)
        elif isinstance(info, TupleStructInfo):
            self._packed("vm.builtin.check_tuple_info", value, PrimValue(len(info.fields)), text)
            for index, field in enumerate(info.fields):
                if not isinstance(field, ObjectStructInfo):
                    self._check(self._field(value, index), field, context)

    def _field(self, value: Expr, index: int) -> Expr:
        if isinstance(value, Tuple):
            return value.fields[index]
        return self.emit(TupleGetItem(value, index))

    def _match(self, value: Expr, info: StructInfo, context: str) -> None:
        """Calls that store or compare the extents of a value."""
        if isinstance(info, TupleStructInfo):
            for index, field in enumerate(info.fields):
                if not isinstance(field, ObjectStructInfo):
                    self._match(self._field(value, index), field, context)
            return
        dims: Any = None
        if isinstance(info, TensorStructInfo):
            dims = info.shape_values
        elif isinstance(info, ShapeStructInfo):
            dims = info.values
        elif isinstance(info, PrimStructInfo) and info.value is not None and tir_vars_of(info.value):
            codes = self._match_codes((info.value,))
            self._packed("vm.builtin.match_prim_value", value, self._heap, *codes, StringImm(context))
            return
        if dims is not None:
            codes = self._match_codes(dims)
            self._packed(
                "vm.builtin.match_shape", value, self._heap, PrimValue(len(dims)), *codes, StringImm(context)
            )

    def _match_codes(self, dims: Any) -> list[Expr]:
        codes: list[Expr] = []
        for dim in dims:
            if isinstance(dim, tir.IntImm):
                code, number = MatchShapeCode.ASSERT_EQUAL_TO_IMM, dim.value
            else:
                number = self._slots.number(dim)
                if number in self._slots.known:
                    code = MatchShapeCode.ASSERT_EQUAL_TO_LOAD
                elif isinstance(dim, tir.Var):
                    code = MatchShapeCode.STORE_TO_HEAP
                    self._slots.known.add(number)
                else:
                    code = MatchShapeCode.NO_OP  # compared where its variables are known
            codes += [PrimValue(int(code)), PrimValue(number)]
        return codes

    def _compute_ready(self) -> None:
        """A call of a function that computes the expressions whose variables are known by now."""
        known_vars = {
            self._slots.exprs[number]
            for number in self._slots.known
            if isinstance(self._slots.exprs[number], tir.Var)
        }
        ready = [
            number
            for number, expr in enumerate(self._slots.exprs)
            if number not in self._slots.known and all(var in known_vars for var in tir_vars_of(expr))
        ]
        if not ready:
            return
        heap = tir.decl_buffer((self._heap_size,), "int64", "H")
        values: dict[Any, Any] = {
            var: heap[tir_const(self._slots.number(var), "int64")] for var in known_vars
        }
        stores = [
            BufferStore(
                heap,
                substitute(self._slots.exprs[number], values).astype("int64"),
                [tir_const(number, "int64")],
            )
            for number in ready
        ]
        body = stores[0] if len(stores) == 1 else SeqStmt(stores)
        func = PrimFunc([heap], body, None, None, {"tir.is_host_func": True})
        var = kernel_var(self._names_free.fresh("shape_func"))
        self._functions[var] = func
        self._computing.append(var)
        self.emit(Call(var, (self._heap,), None, None, None, _NOTHING), "_")
        self._slots.known.update(ready)

    # ---- values ---------------------------------------------------------------------------------------------

    def _materialized(self, expr: Expr) -> Expr:
        """Shapes and scalars that depend on symbolic variables, read from the table."""
        if isinstance(expr, Tuple):
            fields = [self._materialized(field) for field in expr.fields]
            same = all(new is old for new, old in zip(fields, expr.fields, strict=True))
            return expr if same else Tuple(fields)
        if isinstance(expr, ShapeExpr) and tir_vars_of(expr):
            codes: list[Expr] = []
            for dim in expr.values:
                codes += self._make_code(dim)
            self._compute_ready()
            info: StructInfo = ShapeStructInfo(None, len(expr.values))
            args = (self._heap, PrimValue(len(expr.values)), *codes)
            return self.emit(
                Call(ExternFunc("vm.builtin.make_shape"), args, None, [info], None, expr.struct_info_)
            )
        if isinstance(expr, PrimValue) and tir_vars_of(expr):
            codes = self._make_code(expr.value)
            self._compute_ready()
            info = PrimStructInfo(expr.value.dtype)
            args = (self._heap, *codes)
            return self.emit(
                Call(ExternFunc("vm.builtin.make_prim_value"), args, None, [info], None, expr.struct_info_)
            )
        return expr

    def _make_code(self, dim: Any) -> list[Expr]:
        if isinstance(dim, tir.IntImm):
            return [PrimValue(int(MakeShapeCode.USE_IMM)), PrimValue(dim.value)]
        return [PrimValue(int(MakeShapeCode.LOAD_SHAPE)), PrimValue(self._slots.number(dim))]

    def visit_call(self, var: Var, call: Call) -> None:
        args = tuple(self._materialized(arg) for arg in call.args)
        if not all(new is old for new, old in zip(args, call.args, strict=True)):
            info = call.struct_info_ if call.struct_info_ is not None else var.struct_info_
            call = Call(call.op, args, call.attrs, call.sinfo_args, call.span, info)
        self.bind(var, call)

    def visit_binding(self, binding: Binding) -> None:
        value: Expr = binding.value  # type: ignore[attr-defined]
        if isinstance(binding, MatchCast):
            context = f"ErrorContext(match_cast, {binding.var.name_hint})"
            value = self._materialized(value)
            self._check(value, binding.struct_info, context)
            self._match(value, binding.struct_info, context)
            self._compute_ready()
            self.emit_binding(VarBinding(binding.var, value))
        elif isinstance(value, ShapeExpr | PrimValue | Tuple):
            self._current = None
            self.emit_binding(VarBinding(binding.var, self._materialized(value)))
        else:
            super().visit_binding(binding)

    def visit_result(self, body: Expr) -> Expr:
        return self._materialized(self.substitute(body))


@dataclass(frozen=True)
class VMShapeLower(ModulePass):
    """Lower symbolic shapes and the checks of parameters and match_cast to calls of the virtual machine.

    Before::

        @R.function
        def main(x: R.Tensor(["n", "m"], "float32")) -> R.Shape(ndim=2):
            return R.shape([n * 2, m])

    After::

        shape_heap = R.call_builtin_with_ctx("vm.builtin.alloc_shape_heap", (R.prim_value(3),), ...)
        _ = R.call_packed("vm.builtin.check_tensor_info", x, R.prim_value(2), R.dtype("float32"), R.str("..."))
        _ = R.call_packed("vm.builtin.match_shape", x, shape_heap, R.prim_value(2), R.prim_value(1), R.prim_value(0), ...)
        _ = cls.shape_func(shape_heap)     # H[2] = H[0] * 2
        s = R.call_packed("vm.builtin.make_shape", shape_heap, R.prim_value(2), R.prim_value(1), R.prim_value(2), ...)

    The virtual machine of this package computes symbolic shapes by itself, so that its pipelines do without this pass.

    Args:
        emit_err_ctx: put texts into the checks that say which parameter is wrong.
    """

    emit_err_ctx: bool = True

    def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """The lowered module."""
        names = NameTable(mod)
        functions: dict[GlobalVar, Any] = dict(mod.functions)
        for var, func in mod.functions.items():
            if isinstance(func, Function) and "Primitive" not in func.attrs and "Codegen" not in func.attrs:
                functions[var] = _Lowerer(mod, names, functions, self.emit_err_ctx).lower(func)
        return mod.replace(functions=functions)
