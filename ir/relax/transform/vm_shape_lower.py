"""VMShapeLower: symbolic shapes become numbers in a table that the program fills, computes with, and reads."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from ...expr import GlobalVar
from ...module import IRModule
from ...op import Op
from ...structural import structural_equal
from ...tir.buffer import decl_buffer
from ...tir.expr import IntImm
from ...tir.expr import Var as TirVar
from ...tir.function import PrimFunc
from ...tir.operators import const as tir_const
from ...tir.stmt import BufferStore, SeqStmt
from ...tir.stmt_functor import substitute
from ...transform import ModulePass, PassContext
from ..expr import (
    Call,
    DataTypeImm,
    Expr,
    MatchCast,
    PrimValue,
    SeqExpr,
    ShapeExpr,
    StringImm,
    Tuple,
    TupleGetItem,
    Var,
    VarBinding,
)
from ..expr_functor import ExprMutator
from ..function import ExternFunc, Function
from ..function_signature import reference_to
from ..normalizer import merged_blocks
from ..struct_info import (
    FuncStructInfo,
    ObjectStructInfo,
    PrimStructInfo,
    ShapeStructInfo,
    StructInfo,
    TensorStructInfo,
    TupleStructInfo,
)
from ..struct_info_lattice import BaseCheckResult, struct_info_base_check
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
    """Places of symbolic expressions in the table: those of parameters, of the body, of the result, as they are met."""

    def __init__(self, func: Function) -> None:
        self.exprs: list[Any] = []
        self.known: set[int] = set()
        for param in func.params:
            self._collect(param.struct_info)
        self._collect(func.body)
        self._collect(func.ret_struct_info)

    def _collect(self, node: Any) -> None:
        """Give places to the extents of shapes and to scalars; what a variable is declared to be is no use of it."""
        if isinstance(node, SeqExpr):
            for block in node.blocks:
                for binding in block.bindings:
                    self._collect(binding.value)  # type: ignore[attr-defined]
                    if isinstance(binding, MatchCast):
                        self._collect(binding.struct_info)
            self._collect(node.body)
            return
        for dim in _extents(node) or ():
            if not isinstance(dim, IntImm):
                self.number(dim)
        if isinstance(node, Expr | TupleStructInfo) and not isinstance(node, Var | Function):
            node._visit_children(self._collect)

    def number(self, expr: Any) -> int:
        """The place of an expression; equal ones share it."""
        for number, other in enumerate(self.exprs):
            if other is expr or structural_equal(other, expr):
                return number
        self.exprs.append(expr)
        return len(self.exprs) - 1


def _extents(node: Any) -> tuple[Any, ...] | None:
    """The extents or the value that an expression or struct info tells."""
    if isinstance(node, TensorStructInfo):
        return node.shape_values
    if isinstance(node, ShapeStructInfo | ShapeExpr):
        return node.values
    if isinstance(node, PrimStructInfo | PrimValue):
        return None if node.value is None else (node.value,)
    return None


class _Lowerer(ExprMutator):
    def __init__(
        self,
        func: Function,
        names: NameTable,
        functions: dict[GlobalVar, Any],
        errors: bool,
    ) -> None:
        super().__init__()
        self._func = func
        self._names_free = names
        self._functions = functions
        self._errors = errors
        self._slots = _Slots(func)
        table = TensorStructInfo(None, "int64", ndim=1) if self._slots.exprs else ObjectStructInfo()
        self._heap = Var("shape_heap", table)
        self._fields: dict[tuple[Var, int], Var] = {}
        """Fields of tuples that were taken for a check, by tuple and index."""
        self._depth = 0
        """Of the branches around the current binding."""
        self._open: list[tuple[Expr, tuple[Any, ...], str]] = []
        """Values with extents that could not be compared yet, for lack of variables."""

    # ---- the function -----------------------------------------------------------------------------------------

    def lower(self) -> Function:
        """The lowered function."""
        func = self._func
        builder = self.builder_
        builder.begin_scope(func.params)
        builder._begin_binding_block()
        size = len(self._slots.exprs)
        if size:
            args = (ExternFunc("vm.builtin.alloc_shape_heap"), Tuple((PrimValue(size),)))
            info = self._heap.struct_info
            heap = Call(Op.get("relax.call_builtin_with_ctx"), args, None, [info], None, info)
        else:
            heap = Call(Op.get("relax.null_value"), (), None, None, None, ObjectStructInfo())
        builder.emit_normalized(VarBinding(self._heap, heap))
        for param, context in self._parameters():
            self._check(param, param.struct_info, context)
        for param, context in self._parameters():
            self._match(param, param.struct_info, context)
        self._compute_ready()
        opening = builder._end_block()
        body = self.visit_with_new_scope(func.body)
        builder.end_scope()
        seq = SeqExpr(merged_blocks([opening, *body.blocks]), body.body, body.struct_info_)
        return Function(func.params, seq, func.ret_struct_info, func.is_pure, func.attrs, func.span)

    def _parameters(self) -> list[tuple[Var, str]]:
        """The parameters, each with the text that a failing check shows."""
        return [
            (
                param,
                f"ErrorContext(fn={self._name}, loc=param[{number}], param={param.name_hint},"
                f" annotation={param.struct_info}) ",
            )
            for number, param in enumerate(self._func.params)
        ]

    @property
    def _name(self) -> str:
        return str(self._func.attrs.get("global_symbol", ""))

    # ---- checks and matching ----------------------------------------------------------------------------------

    def _packed(self, name: str, *args: Expr) -> None:
        context = args[-1]
        if isinstance(context, StringImm) and not self._errors:
            args = (*args[:-1], StringImm(""))
        self.builder_.emit(Call(ExternFunc(name), args, None, [_NOTHING], None, _NOTHING), "_")

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
        if not isinstance(value, Var):
            return self.builder_.emit(TupleGetItem(value, index))
        if (value, index) not in self._fields:
            self._fields[value, index] = self.builder_.emit(TupleGetItem(value, index))
        return self._fields[value, index]

    def _cast(self, value: Expr, info: StructInfo, context: str) -> None:
        """Check that a value is what it is said to be, as far as its own struct info does not tell."""
        known = value.struct_info
        if struct_info_base_check(info, known) is BaseCheckResult.PASS:
            return
        if isinstance(info, TupleStructInfo) and isinstance(known, TupleStructInfo):
            for index, field in enumerate(info.fields):
                if struct_info_base_check(field, known.fields[index]) is not BaseCheckResult.PASS:
                    self._cast(self._field(value, index), field, context)
            return
        if struct_info_base_check(_kind_of(info), known) is not BaseCheckResult.PASS:
            self._check(value, info, context)
        self._match(value, info, context)

    def _match(self, value: Expr, info: StructInfo, context: str) -> None:
        """Calls that store or compare the extents of a value."""
        if isinstance(info, TupleStructInfo):
            for index, field in enumerate(info.fields):
                if not isinstance(field, ObjectStructInfo):
                    self._match(self._field(value, index), field, context)
            return
        dims = _extents(info)
        if not dims or (isinstance(info, PrimStructInfo) and not tir_vars_of(info.value)):
            return
        codes = self._match_codes(dims)
        if _is_open(codes):
            self._open.append((value, dims, context))
        self._emit_match(value, info, codes, context)

    def _emit_match(self, value: Expr, info: StructInfo, codes: list[PrimValue], context: str) -> None:
        if isinstance(info, PrimStructInfo):
            self._packed("vm.builtin.match_prim_value", value, self._heap, *codes, StringImm(context))
        else:
            rank = PrimValue(len(codes) // 2)
            self._packed("vm.builtin.match_shape", value, self._heap, rank, *codes, StringImm(context))

    def _match_codes(self, dims: Any) -> list[PrimValue]:
        codes: list[PrimValue] = []
        for dim in dims:
            if isinstance(dim, IntImm):
                code, number = MatchShapeCode.ASSERT_EQUAL_TO_IMM, dim.value
            else:
                number = self._slots.number(dim)
                if number in self._slots.known:
                    code = MatchShapeCode.ASSERT_EQUAL_TO_LOAD
                elif isinstance(dim, TirVar):
                    code = MatchShapeCode.STORE_TO_HEAP
                    self._slots.known.add(number)
                else:
                    code, number = MatchShapeCode.NO_OP, 0  # compared where its variables are known
            codes += [PrimValue(int(code)), PrimValue(number)]
        return codes

    def _compute_ready(self) -> None:
        """A call of a function that computes the expressions whose variables are known by now."""
        known_vars = {
            self._slots.exprs[number]
            for number in self._slots.known
            if isinstance(self._slots.exprs[number], TirVar)
        }
        ready = [
            number
            for number, expr in enumerate(self._slots.exprs)
            if number not in self._slots.known and all(var in known_vars for var in tir_vars_of(expr))
        ]
        if not ready:
            return
        heap = decl_buffer((tir_const(len(self._slots.exprs), "int64"),), "int64", "H")
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
        var = reference_to(self._names_free.fresh("shape_func"), func)
        self._functions[var] = func
        self.builder_.emit(Call(var, (self._heap,), None, None, None, _NOTHING), "_")
        self._slots.known.update(ready)
        still_open: list[tuple[Expr, tuple[Any, ...], str]] = []
        for value, dims, context in self._open:
            codes = self._match_codes(dims)
            if _is_open(codes):
                still_open.append((value, dims, context))
            else:
                self._emit_match(value, value.struct_info, codes, context)
        self._open = still_open

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
            info: StructInfo = ShapeStructInfo(None, len(expr.values))
            args = (self._heap, PrimValue(len(expr.values)), *codes)
            return self.builder_.emit(
                Call(ExternFunc("vm.builtin.make_shape"), args, None, [info], None, info)
            )
        if isinstance(expr, PrimValue) and tir_vars_of(expr):
            codes = self._make_code(expr.value)
            info = PrimStructInfo(expr.value.dtype)
            args = (self._heap, *codes)
            return self.builder_.emit(
                Call(ExternFunc("vm.builtin.make_prim_value"), args, None, [info], None, info)
            )
        return expr

    def _make_code(self, dim: Any) -> list[Expr]:
        if isinstance(dim, IntImm):
            return [PrimValue(int(MakeShapeCode.USE_IMM)), PrimValue(dim.value)]
        return [PrimValue(int(MakeShapeCode.LOAD_SHAPE)), PrimValue(self._slots.number(dim))]

    def visit_call_(self, call: Any) -> Any:
        call = super().visit_call_(call)
        # The shapes are numbers in the table now: what the call returns is inferred anew.
        return call.with_args([self._materialized(arg) for arg in call.args])

    def visit_match_cast_(self, binding: Any) -> None:
        value = self._materialized(self.visit_expr(binding.value))
        context = f"ErrorContext(match_cast, struct_info={binding.struct_info}) "
        self._cast(value, binding.struct_info, context)
        self._compute_ready()
        self.builder_.emit_normalized(binding.replace(value=value))

    def visit_var_binding_(self, binding: Any) -> None:
        value = self.visit_expr(binding.value)
        if isinstance(value, ShapeExpr | PrimValue | Tuple):
            value = self._materialized(value)
        self.reemit_binding(binding, value)

    def visit_seq_expr_(self, seq: Any) -> Any:
        self._depth += 1
        result = super().visit_seq_expr_(seq)
        self._depth -= 1
        return result

    def visit_result(self, body: Any) -> Any:
        body = self._materialized(super().visit_result(body))
        if self._depth == 1:
            context = f"ErrorContext(fn={self._name}, loc=return, annotation={self._func.ret_struct_info}) "
            assert self._func.ret_struct_info is not None
            self._cast(body, self._func.ret_struct_info, context)
        return body


def _is_open(codes: list[PrimValue]) -> bool:
    """Whether an extent cannot be compared yet."""
    return any(code.value.value == MatchShapeCode.NO_OP for code in codes[::2])  # type: ignore[attr-defined]


def _kind_of(info: StructInfo) -> StructInfo:
    """What a check looks at: the kind of a value, its rank and dtype."""
    if isinstance(info, TensorStructInfo):
        return TensorStructInfo(None, info.dtype, info.vdevice, info.ndim)
    if isinstance(info, ShapeStructInfo):
        return ShapeStructInfo(None, info.ndim)
    return PrimStructInfo(info.dtype) if isinstance(info, PrimStructInfo) else info


@dataclass(frozen=True, kw_only=True)
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
                functions[var] = _Lowerer(func, names, functions, self.emit_err_ctx).lower()
        return mod.replace(functions=functions)
