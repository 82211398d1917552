"""VMShapeLower: symbolic shapes become numbers in a table that the program fills, computes with, and reads."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from functools import lru_cache
from typing import Any

from ...error import IRValueError
from ...expr import GlobalVar
from ...module import IRModule
from ...node import Mutator
from ...op import Op
from ...structural import structural_equal, structural_hash
from ...tir.buffer import decl_buffer
from ...tir.expr import EQ, FloatImm, IntImm, Select
from ...tir.expr import Var as TirVar
from ...tir.function import PrimFunc
from ...tir.operators import const as tir_const
from ...tir.stmt import BufferStore, SeqStmt
from ...tir.stmt_functor import substitute
from ...transform import ModulePass, PassContext
from ..expr import (
    Binding,
    BindingBlock,
    Call,
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
    VarBinding,
)
from ..expr_functor import ExprMutator
from ..function import ExternFunc, Function
from ..function_signature import reference_to
from ..normalizer import LEAF_CLASSES, merged_blocks
from ..op.requirement import Requirement, divisor_requirements, requirement_of
from ..struct_info import (
    FuncStructInfo,
    ObjectStructInfo,
    PrimStructInfo,
    ShapeStructInfo,
    StructInfo,
    TensorStructInfo,
    TupleStructInfo,
)
from ..struct_info_lattice import BaseCheckResult, prove_dim_equal, struct_info_base_check
from .grouping import NameTable, tir_vars_of
from .static_plan_block_memory import upper_bounds
from .to_non_dataflow import allowing_effects


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

_MAKE_SHAPE, _MAKE_PRIM_VALUE = ExternFunc("vm.builtin.make_shape"), ExternFunc("vm.builtin.make_prim_value")


@lru_cache(maxsize=1024)
def _number(value: int) -> PrimValue:
    """A code, a place or a rank as an argument; the same few are given again and again."""
    return PrimValue(value)


class _Slots:
    """Places of symbolic expressions in the table: those of parameters, of the body, of the result, as they are met."""

    def __init__(self, func: Function) -> None:
        self.exprs: list[Any] = []
        self.known: set[int] = set()
        self._variables: dict[TirVar, int] = {}
        self._by_hash: dict[int, list[int]] = {}
        self._met: dict[int, tuple[Any, int]] = {}
        """Places by identity, with the expressions, whose identities they keep."""
        for param in func.params:
            self._collect(param.struct_info)
        self._collect(func.body)
        self._collect(func.ret_struct_info)

    def _collect(self, node: Any) -> None:
        """Give places to the extents of shapes and to scalars; what a variable is declared to be is no use of it."""
        kind = node.__class__
        if kind in _WITHOUT_EXTENTS:
            return
        if kind is Call:
            self._collect(node.op)
            for part in node.args:
                if part.__class__ not in _WITHOUT_EXTENTS:
                    self._collect(part)
            for info in node.sinfo_args:
                self._collect(info)
        elif isinstance(node, Binding):
            self._collect(node.value)  # type: ignore[attr-defined]
            if isinstance(node, MatchCast):
                self._collect(node.struct_info)
        elif (dims := _extents(node)) is not None:
            for dim in dims:
                if dim.__class__ is not IntImm:
                    self.number(dim)
                    for needed in divisor_requirements(dim):
                        self.number(needed.found)
        elif isinstance(node, Expr | BindingBlock | TupleStructInfo):
            node._visit_children(self._collect)

    def number(self, expr: Any) -> int:
        """The place of an expression; equal ones share it."""
        if isinstance(expr, TirVar):
            if expr not in self._variables:
                self._variables[expr] = self._place(expr)
            return self._variables[expr]
        found = self._met.get(id(expr))
        if found is None:
            found = self._met[id(expr)] = (expr, self._equal_to(expr))
        return found[1]

    def _equal_to(self, expr: Any) -> int:
        same_hash = self._by_hash.setdefault(structural_hash(expr), [])
        for number in same_hash:
            if structural_equal(self.exprs[number], expr):
                return number
        same_hash.append(self._place(expr))
        return same_hash[-1]

    def _place(self, expr: Any) -> int:
        self.exprs.append(expr)
        return len(self.exprs) - 1


_WITHOUT_EXTENTS = (LEAF_CLASSES - {ShapeExpr, PrimValue}) | {Function}
"""What holds no extents that the function around it computes with."""


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
        mod: IRModule,
        name: str,
        func: Function,
        names: NameTable,
        functions: dict[GlobalVar, Any],
        errors: bool,
    ) -> None:
        super().__init__(mod)
        self._name = name
        self._func = func
        self._names_free = names
        self._functions = functions
        self._errors = errors
        self._slots = _Slots(func)
        table = TensorStructInfo(None, "int64", ndim=1) if self._slots.exprs else ObjectStructInfo()
        self._heap = Var("shape_heap", table)
        self._fields: dict[tuple[Var, int], Var] = {}
        """Fields of tuples that were taken for a check, by tuple and index."""
        self._divisors: set[int] = set()
        """Places that tell whether a divisor is zero and that were checked."""
        self._depth = 0
        """How many sequences are entered."""
        self._open: list[tuple[Expr, StructInfo, str]] = []
        """Values with extents that could not be compared yet, for lack of variables."""

    # ---- the function -----------------------------------------------------------------------------------------

    def lower(self) -> Function:
        """The lowered function."""
        func = self._func
        body = self.visit_with_new_scope(func.body, func.params)
        lowered = Function(func.params, body, func.ret_struct_info, func.is_pure, func.attrs, func.span)
        # Checks and the table are effects, which nobody outside sees.
        lowered = lowered.with_attr("relax.force_pure", True) if func.is_pure else lowered
        return allowing_effects(lowered)

    def visit_seq_expr_(self, expr: Any) -> Any:
        self._depth += 1
        try:
            if self._depth > 1:
                return super().visit_seq_expr_(expr)
            self.builder_._begin_binding_block()
            self._begin()
            first = self.builder_._end_block()
            rest = self.builder_.normalize(super().visit_seq_expr_(expr))
        finally:
            self._depth -= 1
        return SeqExpr(merged_blocks([first, *rest.blocks]), rest.body, rest.struct_info_, expr.span)

    def visit_result(self, body: Any) -> Any:
        body = super().visit_result(body)
        if self._depth == 1:
            context = f"ErrorContext(fn={self._name}, loc=return, annotation={self._func.ret_struct_info}) "
            assert self._func.ret_struct_info is not None
            self._cast(body, self._func.ret_struct_info, context)
        return body

    def _can_be_computed(self, dims: Any) -> None:
        """Calls that check what extents that the program uses divide by; the table holds some number for them in any case."""
        for dim in dims:
            for needed in divisor_requirements(dim):
                number = self._slots.number(needed.found)
                if number not in self._divisors:
                    self._divisors.add(number)
                    self._require(needed)

    def _require(self, needed: Requirement) -> None:
        """A call that compares two numbers, unless they are surely the same."""
        if not prove_dim_equal(needed.found, needed.wanted):
            codes = [*self._make_code(needed.found), *self._make_code(needed.wanted)]
            text = StringImm(f"{self._name}: {needed.text}")
            self._packed("vm.builtin.check_extent", self._heap, *codes, text)

    def _begin(self) -> None:
        """The table, and checks of the parameters."""
        size = len(self._slots.exprs)
        if size:
            args = (ExternFunc("vm.builtin.alloc_shape_heap"), Tuple((PrimValue(size),)))
            op = Op.get("relax.call_builtin_with_ctx")
            heap = Call(op, args, None, [self._heap.struct_info])
        else:
            heap = Call(Op.get("relax.null_value"), ())
        self.builder_.emit_normalized(VarBinding(self._heap, self.builder_.normalize(heap)))
        parameters = self._parameters()
        for param, context in parameters:
            self._check(param, param.struct_info, context)
        for param, context in parameters:
            self._match(param, param.struct_info, context)
        for var, bound in upper_bounds(self._func).items():
            text = StringImm(f"{self._name}: extent {var.name}")
            place = PrimValue(self._slots.number(var))
            self._packed("vm.builtin.check_upper_bound", self._heap, place, PrimValue(bound), text)
        self._compute_ready()

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

    def visit_if_(self, expr: Any) -> Any:
        cond = self.visit_expr(expr.cond)
        branches = []
        for branch in (expr.true_branch, expr.false_branch):
            # What one branch computes is not known behind it.
            outer = set(self._slots.known), dict(self._fields), list(self._open), set(self._divisors)
            branches.append(self.visit_with_new_scope(branch))
            self._slots.known, self._fields, self._open, self._divisors = outer
        return If(cond, *branches, None, expr.span)

    def visit_function_(self, expr: Any) -> Any:
        raise IRValueError(
            f"VMShapeLower: function {self._name} holds a local function; run LambdaLift before"
        )

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
        if not dims or any(isinstance(dim, FloatImm) for dim in dims):
            return
        codes = self._match_codes(dims)
        if _is_open(codes):
            self._open.append((value, info, context))
        else:
            self._can_be_computed(dims)
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
                substitute(_harmless(self._slots.exprs[number]), values).astype("int64"),
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
        still_open: list[tuple[Expr, StructInfo, str]] = []
        for value, info, context in self._open:
            codes = self._match_codes(_extents(info))
            if _is_open(codes):
                still_open.append((value, info, context))
            else:
                self._can_be_computed(_extents(info))
                self._emit_match(value, info, codes, context)
        self._open = still_open

    # ---- values ---------------------------------------------------------------------------------------------

    def visit_shape_expr_(self, expr: Any) -> Any:
        return self.builder_.emit(self._made(expr)) if _is_symbolic(expr) else expr

    visit_prim_value_ = visit_shape_expr_

    def _made(self, expr: Any) -> Call:
        """The call that reads a symbolic shape or scalar from the table."""
        self._can_be_computed(_extents(expr))
        if isinstance(expr, ShapeExpr):
            codes = [code for dim in expr.values for code in self._make_code(dim)]
            info: StructInfo = ShapeStructInfo(None, len(expr.values))
            args: list[Expr] = [self._heap, _number(len(expr.values)), *codes]
            return Call(_MAKE_SHAPE, args, None, [info], None, info)
        info = PrimStructInfo(expr.value.dtype)
        args = [self._heap, *self._make_code(expr.value)]
        return Call(_MAKE_PRIM_VALUE, args, None, [info], None, info)

    def _make_code(self, dim: Any) -> list[Expr]:
        if isinstance(dim, IntImm):
            return [_number(int(MakeShapeCode.USE_IMM)), PrimValue(dim.value)]
        return [_number(int(MakeShapeCode.LOAD_SHAPE)), _number(self._slots.number(dim))]

    def looks_at(self, callee: Any) -> bool:
        return False  # a call only changes with its operands

    def changes_leaf(self, leaf: Any) -> bool:
        return _is_symbolic(leaf)

    def visit_call_(self, expr: Any) -> Any:
        op = self.visit_expr(expr.op) if isinstance(expr.op, Var) else expr.op
        args = self._map_exprs(expr.args)
        if op is expr.op and args is expr.args:
            return expr
        # The shapes are numbers in the table now: what the call returns is inferred anew.
        return Call(op, args, expr.attrs, expr.sinfo_args, expr.span)

    def visit_var_binding_(self, binding: Any) -> None:
        value = binding.value
        if self._stays(binding):
            self.builder_.emit_normalized(binding)
        elif _is_symbolic(value):
            self.reemit_binding(binding, self.builder_.normalize(self._made(value)))
        else:
            super().visit_var_binding_(binding)

    def visit_match_cast_(self, binding: Any) -> None:
        requirement = requirement_of(binding)
        if requirement is not None:
            self._require(requirement)
            return
        value = self.visit_expr(binding.value)
        context = f"ErrorContext(match_cast, var={binding.var.name_hint}, struct_info={binding.struct_info}) "
        self._cast(value, binding.struct_info, context)
        self._compute_ready()
        self.builder_.emit_normalized(MatchCast(binding.var, value, binding.struct_info, binding.span))


class _HarmlessDivision(Mutator):
    """Divides by one where a program would divide by zero: an extent of a branch is computed though it is not taken."""

    def _divided(self, expr: Any) -> Any:
        a, b = self.visit(expr.a), self.visit(expr.b)
        if isinstance(b, IntImm):
            return expr if a is expr.a and b is expr.b else type(expr)(a, b)
        return type(expr)(a, Select(EQ(b, tir_const(0, b.dtype)), tir_const(1, b.dtype), b))

    visit_FloorDiv = visit_FloorMod = visit_Div = visit_Mod = _divided


def _harmless(expr: Any) -> Any:
    """The expression, which may be computed where the program does not ask for it."""
    return _HarmlessDivision().visit(expr)


def _is_symbolic(expr: Any) -> bool:
    """Whether a shape or a scalar depends on symbolic variables."""
    kind = expr.__class__
    if kind is ShapeExpr:
        return any(map(_has_variables, expr.values))
    return kind is PrimValue and _has_variables(expr.value)


def _has_variables(dim: Any) -> bool:
    kind = dim.__class__
    return kind is TirVar or (kind is not IntImm and bool(tir_vars_of(dim)))


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


def _is_lowered(func: Function) -> bool:
    first = next((binding for block in func.body.blocks for binding in block.bindings), None)
    value: Any = getattr(first, "value", None)
    if first is None or first.var.name_hint != "shape_heap" or not isinstance(value, Call):
        return False
    return not isinstance(value.op, GlobalVar)


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

    A pure function gets the attribute ``relax.force_pure``, as by RemovePurityChecking: the calls have effects, which nobody
    outside sees. Dataflow blocks become plain. Extents with a bound (``tir_var_upper_bound``) are compared with it. A function
    that has its table already stays as it is.

    Args:
        emit_err_ctx: put texts into the checks that say which parameter is wrong.

    Raises:
        IRValueError: a function holds a local function.
    """

    emit_err_ctx: bool = True

    def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """The lowered module."""
        names = NameTable(mod)
        functions: dict[GlobalVar, Any] = dict(mod.functions)
        for var, func in mod.functions.items():
            if not isinstance(func, Function) or "Primitive" in func.attrs or "Codegen" in func.attrs:
                continue
            if not _is_lowered(func):
                name = var.name_hint
                functions[var] = _Lowerer(mod, name, func, names, functions, self.emit_err_ctx).lower()
        return mod.replace(functions=functions)
