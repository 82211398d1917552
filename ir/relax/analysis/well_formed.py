"""Well-formedness: what every Relax program holds between passes.

- every variable is bound once, before its uses; dataflow variables are used in their block only;
- every symbolic variable is defined, by a parameter or a match cast, before its uses;
- arguments of calls are leaves or tuples of leaves (A-normal form); bodies of functions and branches are SeqExpr;
- dataflow blocks hold no control flow and no impure calls; functions that claim to be pure call nothing impure;
- references to functions are in the module, under one name each, and ``global_symbol`` attributes match the names (in a module of
  kernels alone, such as a schedule's, nothing is found by them);
- every expression has a struct info, and none contradicts what inference finds;
- no call contradicts its callee: arguments and result of functions and of known closures, buffers of
  kernels (:mod:`.call_signature`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from ...error import DiagnosticError, IRError
from ...expr import GlobalVar
from ...module import IRModule
from ...op import Op
from ...tir.expr import Var as TirVar
from ...tir.function import PrimFunc
from ..block_builder import BlockBuilder
from ..expr import (
    Call,
    DataflowBlock,
    DataflowVar,
    If,
    MatchCast,
    PrimValue,
    SeqExpr,
    ShapeExpr,
    Tuple,
    TupleGetItem,
    Var,
    is_call_to,
)
from ..function import ExternFunc, Function
from ..function_signature import called_function
from ..normalizer import is_leaf
from ..struct_info import FuncStructInfo, StructInfo
from ..struct_info_lattice import BaseCheckResult, struct_info_base_check
from ..symbolic_vars import definable_tir_vars_in_struct_info, tir_vars_in
from .call_signature import function_call_problems, kernel_call_problems
from .memory import is_pure


class WellFormedError(DiagnosticError):
    """A Relax program breaks a rule; the message names the rule and the expression."""

    def __init__(self, message: str, statement: Any = None) -> None:
        super().__init__(message)
        self.statement = statement
        """The binding that breaks the first rule, or None."""


_WINDOW = 400
"""Characters of an offending expression that a message shows."""


def _show(node: Any) -> str:
    text = repr(node)
    return text if len(text) <= _WINDOW else text[:_WINDOW] + " ..."


ClosureOf = tuple[str, FuncStructInfo, Sequence[Any]]
"""The name and the signature of the function that a closure is of, and what it has captured: the function's first arguments."""


class _Checker:
    """Walks a function once, in order of execution."""

    def __init__(self, mod: IRModule | None, check_struct_info: bool) -> None:
        self.mod = mod
        self.check_info = check_struct_info
        self.problems: list[str] = []
        self.functions = {} if mod is None else {var.name_hint: func for var, func in mod.functions.items()}
        self.name = ""
        self.bound: set[Any] = set()
        self.visible: set[Any] = set()
        self.dataflow: set[Any] = set()
        self.symbols: set[TirVar] = set()
        self.in_dataflow = False
        self.pure = False
        self.closures: dict[Any, ClosureOf] = {}
        """What a variable is a closure of, where that is known, by the variable's identity."""
        self.own_vars: list[Var] = []
        self.bindings: list[Any] = []
        """The bindings being walked, innermost last."""
        self.first: Any = None
        """The binding of the first problem, or None where it is in none."""

    def problem(self, rule: str, node: Any) -> None:
        if not self.problems and self.bindings:
            self.first = self.bindings[-1]
        where = f"function {self.name}: " if self.name else ""
        self.problems.append(f"{where}{rule}: {_show(node)}")

    # expressions

    def expr(self, expr: Any) -> None:
        if isinstance(expr, Var):
            self.use(expr)
            return
        if isinstance(expr, GlobalVar):
            if self.mod is not None and not any(var is expr for var in self.mod.functions):
                if expr.name_hint not in self.mod:
                    self.problem(
                        f"reference to a function {expr.name_hint!r} that is not in the module", expr
                    )
            return
        method = _EXPRESSIONS.get(type(expr))
        if method is not None:
            method(self, expr)
        if self.check_info and expr.struct_info_ is None and not isinstance(expr, Op | PrimFunc | GlobalVar):
            self.problem(f"{type(expr).__name__} without struct info; normalize it", expr)

    def use(self, var: Var) -> None:
        if var.vid not in self.visible and var.vid not in self.dataflow:
            if var.vid in self.bound and isinstance(var, DataflowVar):
                self.problem(f"dataflow variable {var.name_hint} is used outside its dataflow block", var)
            else:
                self.problem(f"variable {var.name_hint} is used before or without its definition", var)
        if self.check_info and var.struct_info_ is None:
            self.problem(f"variable {var.name_hint} without struct info", var)

    def argument(self, expr: Any, parent: Any) -> None:
        if isinstance(expr, Tuple):
            for item in expr.fields:
                self.argument(item, parent)
        elif not is_leaf(expr) and not isinstance(expr, PrimFunc):
            self.problem(
                f"an argument is no variable or constant but a {type(expr).__name__} (not in A-normal form)",
                parent,
            )
        self.expr(expr)

    def tuple(self, expr: Tuple) -> None:
        for item in expr.fields:
            self.argument(item, expr)

    def tuple_getitem(self, expr: Any) -> None:
        self.argument(expr.tuple_value, expr)

    def shape(self, expr: Any) -> None:
        for value in expr.values:
            self.tir(value, expr)

    def prim_value(self, expr: Any) -> None:
        self.tir(expr.value, expr)

    def tir(self, value: Any, parent: Any) -> None:
        for var in tir_vars_in(value):
            if var not in self.symbols:
                self.problem(f"symbolic variable {var.name} is not defined", parent)

    def info(self, info: StructInfo | None, parent: Any) -> None:
        if info is not None and not isinstance(info, FuncStructInfo):
            for var in tir_vars_in(info):
                if var not in self.symbols:
                    self.problem(f"symbolic variable {var.name} in a struct info is not defined", parent)

    def call(self, call: Call) -> None:
        if not isinstance(call.op, Op):
            self.expr(call.op)
            if not isinstance(call.op, Var | GlobalVar | ExternFunc):
                self.problem(f"the callee is no variable or operator but a {type(call.op).__name__}", call)
        for arg in call.args:
            self.argument(arg, call)
        for info in call.sinfo_args:
            self.info(info, call)
        if self.in_dataflow or self.pure:
            recursive = isinstance(call.op, Var) and any(var.vid is call.op.vid for var in self.own_vars)
            if not recursive and not is_pure(call):
                where = "a dataflow block" if self.in_dataflow else "a function that claims to be pure"
                self.problem(f"impure call in {where}{self.pure_form(call)}", call)
        if not self.check_info:
            return
        if isinstance(call.op, Op) and call.struct_info_ is not None:
            self.check_inference(call)
            self.check_normal_form(call)
        if is_call_to(call, "relax.invoke_closure", "relax.invoke_pure_closure"):
            self.check_closure(call)
        else:
            self.check_callee(call)

    def check_closure(self, call: Call) -> None:
        """A call of a closure agrees with the function that the closure is of, as far as that is known."""
        closure, given = call.args
        known = self.closures.get(closure.vid) if isinstance(closure, Var) else None
        if known is None or not isinstance(given, Tuple):
            return
        name, callee, captured = known
        whole = Call(call.op, (*captured, *given.fields), None, None, call.span, call.struct_info_)
        self.report(function_call_problems(whole, callee, f"the closure of {name}"), call)
        if is_call_to(call, "relax.invoke_pure_closure") and not callee.purity:
            self.problem(f"the call says that {name} is pure, the function is not", call)

    def note_closure(self, var: Var, value: Any) -> None:
        """Remember what a variable is a closure of."""
        if isinstance(value, Var) and value.vid in self.closures:
            self.closures[var.vid] = self.closures[value.vid]
        if not is_call_to(value, "relax.make_closure"):
            return
        func: Any = value.args[0]
        captured = value.args[1]
        known = self.functions.get(func.name_hint) if isinstance(func, GlobalVar) else func
        info = known.struct_info_ if known is not None else None
        if isinstance(info, FuncStructInfo) and isinstance(captured, Tuple):
            self.closures[var.vid] = func.name_hint, info, captured.fields

    def pure_form(self, call: Call) -> str:
        """How a kernel that is called like a function would be called without effects, for the end of a message."""
        callee = call.op.name_hint if isinstance(call.op, GlobalVar) else ""
        if not isinstance(self.functions.get(callee), PrimFunc):
            return ""
        return f" (a kernel writes its arguments; R.call_tir({callee}, (...), out_sinfo=...) gives it new ones for its outputs)"

    def check_callee(self, call: Call) -> None:
        """A call and the function or kernel that it calls agree."""
        callee = called_function(call)
        if callee is None:
            info = call.op.struct_info_ if isinstance(call.op, Var) else None
            if isinstance(info, FuncStructInfo):
                self.report(function_call_problems(call, info, call.op.name_hint), call)  # type: ignore[attr-defined]
            return
        func = self.functions.get(callee.name_hint)
        if isinstance(func, PrimFunc):
            self.report(kernel_call_problems(call, func, callee.name_hint), call)
        elif isinstance(func, Function):
            info = func.struct_info_
            if callee is not call.op:
                self.problem(f"{callee.name_hint} is no kernel", call)
            elif isinstance(info, FuncStructInfo):
                self.report(function_call_problems(call, info, callee.name_hint), call)
                if (self.in_dataflow or self.pure) and is_pure(call) and not info.purity:
                    self.problem(f"the reference calls {callee.name_hint} pure, the function is not", call)

    def report(self, problems: Iterable[str], node: Any) -> None:
        for found in problems:
            self.problem(found, node)

    def check_inference(self, call: Call) -> None:
        infer = call.op.get_attr("FInferStructInfo")  # type: ignore[attr-defined]
        if infer is None or any(arg.struct_info_ is None for arg in call.args):
            return
        try:
            found = infer(call, None)
        except IRError as error:
            self.problem(f"the call's arguments are not accepted ({error})", call)
            return
        if struct_info_base_check(call.struct_info, found) is BaseCheckResult.FAIL_L0:
            self.problem(f"the call has struct info {call.struct_info}, its arguments give {found}", call)

    def check_normal_form(self, call: Call) -> None:
        normalize = call.op.get_attr("FNormalize")  # type: ignore[attr-defined]
        if normalize is None:
            return
        builder = BlockBuilder()
        builder._begin_block(self.in_dataflow)
        if normalize(builder, call) is not call:
            self.problem(f"the call is not in the normal form of {call.op.name}", call)  # type: ignore[attr-defined]
        builder._end_block()

    def branch(self, expr: If) -> None:
        if self.in_dataflow:
            self.problem("control flow in a dataflow block", expr)
        self.argument(expr.cond, expr)
        for seq in (expr.true_branch, expr.false_branch):
            visible, symbols = set(self.visible), set(self.symbols)
            self.expr(seq)
            self.visible, self.symbols = visible, symbols

    def seq(self, seq: SeqExpr) -> None:
        for block in seq.blocks:
            self.block(block)
        if not is_leaf(seq.body):
            self.problem(
                f"the result of a sequence is no variable or constant but a {type(seq.body).__name__}",
                seq.body,
            )
        self.expr(seq.body)

    def block(self, block: Any) -> None:
        outer_flow, outer_vars = self.in_dataflow, self.dataflow
        if isinstance(block, DataflowBlock):
            self.in_dataflow, self.dataflow = True, set(outer_vars)
        for binding in block.bindings:
            self.bindings.append(binding)
            self.binding(binding)
            self.bindings.pop()
        self.in_dataflow, self.dataflow = outer_flow, outer_vars

    def binding(self, binding: Any) -> None:
        value = binding.value
        if isinstance(value, Function):
            # a local function may call itself
            self.define(binding.var)
            self.own_vars.append(binding.var)
            self.expr(value)
            self.own_vars.pop()
            return
        if isinstance(value, SeqExpr):
            self.problem("a binding's value is a sequence; normalization splices it in", value)
        self.expr(value)

        if isinstance(binding, MatchCast):
            self.symbols.update(definable_tir_vars_in_struct_info(binding.struct_info))
            self.info(binding.struct_info, binding)
        self.define(binding.var)
        self.note_closure(binding.var, value)
        if self.check_info and value.struct_info_ is not None and binding.var.struct_info_ is not None:
            wanted = binding.struct_info if isinstance(binding, MatchCast) else value.struct_info_
            if struct_info_base_check(binding.var.struct_info_, wanted) is BaseCheckResult.FAIL_L0:
                self.problem(
                    f"variable {binding.var.name_hint} has struct info {binding.var.struct_info_}, its value {wanted}",
                    value,
                )

    def define(self, var: Var) -> None:
        if var.vid in self.bound:
            self.problem(f"variable {var.name_hint} is defined twice", var)
        self.bound.add(var.vid)
        if isinstance(var, DataflowVar):
            if not self.in_dataflow:
                self.problem(f"dataflow variable {var.name_hint} is bound outside a dataflow block", var)
            self.dataflow.add(var.vid)
        else:
            self.visible.add(var.vid)
        if self.check_info and var.struct_info_ is None:
            self.problem(f"variable {var.name_hint} without struct info", var)
        self.info(var.struct_info_, var)

    def function(self, func: Function) -> None:
        saved = (self.visible, self.dataflow, self.symbols, self.in_dataflow, self.pure)
        self.visible, self.symbols = set(self.visible) | self.dataflow, set(self.symbols)
        self.dataflow, self.in_dataflow = set(), False
        self.pure = func.is_pure and not func.attrs.get("relax.force_pure", False)
        for param in func.params:
            if isinstance(param, DataflowVar):
                self.problem(f"parameter {param.name_hint} is a dataflow variable", param)
            if param.struct_info_ is not None:
                self.symbols.update(definable_tir_vars_in_struct_info(param.struct_info_))
        for param in func.params:
            if isinstance(param, DataflowVar):
                continue
            self.define(param)
        if self.check_info and func.ret_struct_info is None:
            self.problem("function without a result's struct info", func)
        self.info(func.ret_struct_info, func)
        if not isinstance(func.body, SeqExpr):
            self.problem("the body of a function must be a SeqExpr", func.body)
        self.expr(func.body)
        result = func.body.struct_info_ if isinstance(func.body, SeqExpr) else None
        if self.check_info and func.ret_struct_info is not None and result is not None:
            if struct_info_base_check(func.ret_struct_info, result) is BaseCheckResult.FAIL_L0:
                self.problem(
                    f"the function declares to return {func.ret_struct_info}, its body is {result}", func.body
                )
        self.visible, self.dataflow, self.symbols, self.in_dataflow, self.pure = saved


_EXPRESSIONS: dict[type, Any] = {
    Tuple: _Checker.tuple,
    TupleGetItem: _Checker.tuple_getitem,
    ShapeExpr: _Checker.shape,
    PrimValue: _Checker.prim_value,
    Call: _Checker.call,
    If: _Checker.branch,
    SeqExpr: _Checker.seq,
    Function: _Checker.function,
}


def _checked(obj: IRModule | Function, check_struct_info: bool) -> _Checker:
    """A checker that has seen the whole program; its problems are in order of appearance."""
    if isinstance(obj, Function):
        checker = _Checker(None, check_struct_info)
        checker.expr(obj)
        return checker
    checker = _Checker(obj, check_struct_info)
    names: set[str] = set()
    holds_relax = any(isinstance(func, Function) for func in obj.functions.values())
    for var, func in obj.functions.items():
        if var.name_hint in names:
            checker.problem("two functions of the module have this name", var)
        names.add(var.name_hint)
        symbol = func.attrs.get("global_symbol")
        if holds_relax and symbol is not None and symbol != var.name_hint:
            checker.problems.append(
                f"function {var.name_hint}: its global_symbol attribute is {symbol!r}, not its name"
            )
        if isinstance(func, Function):
            checker.name = var.name_hint
            checker.expr(func)
            checker.name = ""
    return checker


def check_well_formed(obj: IRModule | Function, check_struct_info: bool = True) -> None:
    """Raise WellFormedError with the broken rules unless the program is well formed."""
    checker = _checked(obj, check_struct_info)
    problems = checker.problems
    if problems:
        shown = "\n".join(f"  {problem}" for problem in problems[:10])
        more = f"\n  and {len(problems) - 10} more" if len(problems) > 10 else ""
        message = f"the Relax program is not well formed:\n{shown}{more}"
        raise WellFormedError(message, checker.first)


def well_formed(obj: IRModule | Function, check_struct_info: bool = True) -> bool:
    """Whether the program is well formed; :func:`check_well_formed` tells what is wrong."""
    return not _checked(obj, check_struct_info).problems
