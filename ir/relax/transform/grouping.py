"""Moving groups of bindings into new functions: what FuseOps, FuseOpsByPattern and MergeCompositeFunctions have in common."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ... import dtype as dt
from ...attrs import DictAttrs
from ...expr import GlobalVar
from ...module import IRModule, fresh_name
from ...structural import structural_equal, structural_hash
from ...tir.expr import PrimExpr
from ...tir.expr import Var as TirVar
from ...tir.function import PrimFunc
from ..expr import (
    Binding,
    BindingBlock,
    Call,
    Constant,
    DataflowBlock,
    DataflowVar,
    Expr,
    PrimValue,
    SeqExpr,
    ShapeExpr,
    Tuple,
    TupleGetItem,
    Var,
    VarBinding,
)
from ..expr_functor import ExprMutator
from ..function import Function
from ..op.declaration import declaration_of


class NameTable:
    """Names that are free in a module, and the functions that a pass has added to it."""

    def __init__(self, mod: IRModule) -> None:
        self._taken = {var.name_hint for var in mod.functions}
        self._added: dict[int, list[tuple[GlobalVar, Function | PrimFunc]]] = {}

    def add(self, mod: IRModule, name: str, function: Function | PrimFunc) -> GlobalVar:
        """Add a function to the module; one that is equal to a function added before is that one."""
        found = self._added.setdefault(structural_hash(function), [])
        for var, other in found:
            if structural_equal(function, other):
                return var
        var = GlobalVar(self.fresh(name), function.struct_info)
        found.append((var, function))
        mod.functions[var] = function
        return var

    def fresh(self, name: str) -> str:
        """``name``, or ``name1``, ``name2``, ... ; taken from now on."""
        return fresh_name(name, self._taken)


def tir_vars_of(node: Any) -> list[TirVar]:
    """The symbolic variables in an expression and in the struct infos of it, in order of appearance."""
    found: dict[TirVar, None] = {}

    def visit(item: Any) -> None:
        if isinstance(item, TirVar):
            found.setdefault(item)
            return
        info = getattr(item, "struct_info_", None)
        if info is not None and isinstance(item, Var):
            visit(info)
        item._visit_children(visit)

    visit(node)
    return list(found)


def definable_vars(infos: Iterable[Any]) -> set[TirVar]:
    """The symbolic variables that values of these struct infos determine: those that are an extent by themselves."""
    found: set[TirVar] = set()

    def visit(node: Any) -> None:
        if isinstance(node, TirVar):
            found.add(node)
        elif not isinstance(node, PrimExpr):
            node._visit_children(visit)

    for info in infos:
        visit(info)
    return found


class Group:
    """Bindings that shall become one function.

    Attributes:
        bindings: in program order.
        name: of the function.
        attrs: of the function.
        lift_constants: whether constants become parameters (kernels cannot hold them) or stay inside.
        keeps_scalars: whether floats without an axis stay inside in any case, for operators that become kernels with them as numbers.
    """

    def __init__(
        self,
        bindings: Sequence[VarBinding],
        name: str,
        attrs: dict[str, Any],
        lift_constants: bool = True,
        keeps_scalars: bool = False,
    ) -> None:
        self.bindings = list(bindings)
        self.name = name
        self.attrs = attrs
        self.lift_constants = lift_constants
        self.keeps_scalars = keeps_scalars
        self.args: list[Expr] = []
        self.outputs: list[Var] = []
        self.function: Function | None = None

    def build(self, is_used_outside: Callable[[Var], bool]) -> Function:
        """Make the function; ``args`` and ``outputs`` tell how to call it."""
        local = {binding.var for binding in self.bindings}
        self.outputs = [binding.var for binding in self.bindings if is_used_outside(binding.var)]
        outputs = set(self.outputs)
        taken = _tuples_taken_apart(self.bindings, local, outputs)
        fields: dict[tuple[Var, int], Var] = {}
        params: list[Var] = []
        renamed: dict[Var, Var] = {}
        constants: dict[int, Var] = {}

        def visit_leaf(expr: Any) -> Any:
            if isinstance(expr, Var):
                if expr in local:
                    return renamed.get(expr, expr)
                if expr not in renamed:
                    renamed[expr] = Var(expr.name_hint, expr.struct_info_)
                    params.append(renamed[expr])
                    self.args.append(expr)
                return renamed[expr]
            if isinstance(expr, Constant):
                if not self.lift_constants or (self.keeps_scalars and _is_float_scalar(expr)):
                    return expr
                if id(expr) not in constants:
                    constants[id(expr)] = Var(f"param_{len(constants)}", expr.struct_info_)
                    params.append(constants[id(expr)])
                    self.args.append(expr)
                return constants[id(expr)]
            if isinstance(expr, Call | Tuple | TupleGetItem):
                return expr._map_children(visit_leaf)  # type: ignore[union-attr]
            return expr

        new_bindings = []
        for binding in self.bindings:
            source = binding.value
            if isinstance(source, TupleGetItem) and source.tuple_value in taken:
                # Of a tuple that the function takes apart, it is given the fields that it uses.
                where = (source.tuple_value, source.index)
                if where not in fields:
                    name = f"{source.tuple_value.name_hint}_{source.index}"  # type: ignore[attr-defined]
                    fields[where] = Var(name, binding.var.struct_info_)  # type: ignore[index]
                    params.append(fields[where])  # type: ignore[index]
                    self.args.append(source)
                renamed[binding.var] = fields[where]  # type: ignore[index]
                continue
            value = visit_leaf(source)
            name = "gv" if binding.var in outputs else binding.var.name_hint
            var = (Var if binding.var in outputs else DataflowVar)(name, binding.var.struct_info_)
            renamed[binding.var] = var
            if isinstance(value, Call) and value.struct_info_ is None:
                value = value.replace(struct_info_=var.struct_info_)
            new_bindings.append(VarBinding(var, value))
        results = [renamed[var] for var in self.outputs]
        body: Expr = results[0] if len(results) == 1 else Tuple(results)
        symbols = dict.fromkeys(
            symbol
            for binding in new_bindings
            for part in (binding.var, binding.value)
            for symbol in tir_vars_of(part)
        )
        known = definable_vars(param.struct_info_ for param in params)
        missing = [symbol for symbol in symbols if symbol not in known]
        if missing:
            shape = ShapeExpr(missing)
            params.append(Var("tir_vars", shape.struct_info_))
            self.args.append(shape)
        seq = SeqExpr((DataflowBlock(new_bindings),), body, body.struct_info_)
        self.function = Function(params, seq, body.struct_info_, True, DictAttrs(self.attrs))
        return self.function


def _is_float_scalar(constant: Constant) -> bool:
    return constant.data.ndim == 0 and dt.is_float(dt.from_numpy(constant.data.dtype))


def _tuples_taken_apart(bindings: Sequence[VarBinding], local: set[Var], outputs: set[Var]) -> set[Expr]:
    """The tuples from outside that bindings use for nothing but for taking fields that stay inside."""
    taken: set[Expr] = set()
    whole: set[Expr] = set()
    for binding in bindings:
        value = binding.value
        if isinstance(value, TupleGetItem) and value.tuple_value not in local and binding.var not in outputs:
            taken.add(value.tuple_value)
        else:
            whole.update(leaves(value))
    return taken - whole


class GroupRewriter(ExprMutator):
    """Replaces the bindings of groups by calls of the groups' functions, at the place of each group's last binding.

    Args:
        mod: the module that the functions are added to (a copy that the pass owns).
        groups: disjoint groups of one function's bindings, each with its function's name.
        func: the function that holds them.
    """

    def __init__(self, mod: IRModule, groups: Sequence[Group], func: Function, names: NameTable) -> None:
        super().__init__(mod)
        self._result = mod
        self._names_free = names
        self._group_of = {binding.var: group for group in groups for binding in group.bindings}
        self._last = {group.bindings[-1].var: group for group in groups}
        self._used_outside = _outside_uses(func, self._group_of)

    def visit_bindings(self, block: BindingBlock) -> None:
        """Emit calls instead of the groups' bindings."""
        for binding in block.bindings:
            var = binding.var
            if var not in self._group_of:
                self.visit_binding(binding)
            elif var in self._last:
                self._emit_call(self._last[var])

    def _add(self, group: Group, function: Function) -> GlobalVar:
        """Add a group's function to the module."""
        return self._names_free.add(self._result, group.name, function)

    def _emit_call(self, group: Group) -> None:
        function = group.build(lambda var: var in self._used_outside)
        var = self._add(group, function)
        args = [
            self.builder_.emit(value) if isinstance(value, TupleGetItem) else value
            for value in map(self.visit_expr, group.args)
        ]
        if len(group.outputs) == 1:
            output = group.outputs[0]
            self._replace(output, Call(var, args, None, None, None, output.struct_info_))
            return
        call = self.builder_.emit(Call(var, args, None, None, None, function.ret_struct_info))
        for index, output in enumerate(group.outputs):
            self._replace(output, TupleGetItem(call, index))

    def _replace(self, output: Var, value: Expr) -> None:
        """Bind a result of a group to a new variable, for it is no operator's result anymore."""
        is_output = self.builder_.current_block_is_dataflow() and not isinstance(output, DataflowVar)
        var = self.builder_.emit_output(value) if is_output else self.builder_.emit(value)
        self.set_var_remap(output.vid, var)


def _outside_uses(func: Function, group_of: dict[Var, Group]) -> set[Var]:
    """The variables of groups that something outside of their own group uses."""
    used: set[Var] = set()

    def visit_seq(seq: SeqExpr) -> None:
        for block in seq.blocks:
            for binding in block.bindings:
                visit_binding(binding)
        visit(seq.body, None)

    def visit_binding(binding: Binding) -> None:
        group = group_of.get(binding.var)
        visit(binding.value, group)  # type: ignore[attr-defined]

    def visit(expr: Any, group: Group | None) -> None:
        def walk(node: Any) -> None:
            if isinstance(node, Var):
                owner = group_of.get(node)
                if owner is not None and owner is not group:
                    used.add(node)
            elif isinstance(node, SeqExpr):
                visit_seq(node)
            elif isinstance(node, Function):
                visit_seq(node.body)
            else:
                node._visit_children(walk)

        walk(expr)

    visit_seq(func.body)
    return used


def op_name(expr: Expr) -> str:
    """How a binding's value is called in the names of fused functions."""
    if isinstance(expr, Call):
        if isinstance(expr.op, GlobalVar):
            return expr.op.name_hint
        name = getattr(expr.op, "name", "")
        declared = declaration_of(expr.op)
        callee = None if declared is None or declared.callee is None else expr.args[declared.callee]
        if isinstance(callee, GlobalVar):
            return callee.name_hint
        return name.removeprefix("relax.").replace(".", "_") or "call"
    return (
        "tuple_get_item"
        if isinstance(expr, TupleGetItem)
        else "tuple"
        if isinstance(expr, Tuple)
        else "value"
    )


def leaves(expr: Any) -> list[Expr]:
    """The variables and constants in a value, in order."""
    found: list[Expr] = []

    def visit(node: Any) -> None:
        if isinstance(node, Var | Constant):
            found.append(node)
        elif not isinstance(node, GlobalVar | ShapeExpr | PrimValue):
            node._visit_children(visit)

    visit(expr)
    return found


__all__ = ["Group", "GroupRewriter", "NameTable", "definable_vars", "leaves", "op_name", "tir_vars_of"]
