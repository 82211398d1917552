"""RemoveUnusedOutputs: private functions return only the fields of a tuple that some caller uses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...expr import GlobalVar
from ...module import IRModule
from ...transform import ModulePass, PassContext
from ..analysis.binding import all_bindings
from ..expr import BindingBlock, Call, Expr, SeqExpr, Tuple, TupleGetItem, Var, VarBinding
from ..function import Function
from ..function_signature import SignatureChange, change_signatures, private_functions
from ..struct_info import TupleStructInfo


def _used_fields(mod: IRModule) -> dict[str, set[int] | None]:
    """The fields of each function's result that callers read; None when one uses the tuple as a whole."""
    used: dict[str, set[int] | None] = {}
    for func in mod.functions.values():
        if not isinstance(func, Function):
            continue
        calls: dict[Var, str] = {}
        for binding in all_bindings(func):
            value = binding.value
            if isinstance(value, Call) and isinstance(value.op, GlobalVar):
                calls[binding.var] = value.op.name_hint
                used.setdefault(value.op.name_hint, set())

        def visit(node: Any, calls: dict[Var, str] = calls) -> None:
            if (
                isinstance(node, TupleGetItem)
                and isinstance(node.tuple_value, Var)
                and node.tuple_value in calls
            ):
                fields = used[calls[node.tuple_value]]
                if fields is not None:
                    fields.add(node.index)
            elif isinstance(node, Var):
                if node in calls:
                    used[calls[node]] = None
            elif isinstance(node, SeqExpr):
                for block in node.blocks:
                    for binding in block.bindings:
                        visit(binding.value, calls)  # type: ignore[attr-defined]
                visit(node.body, calls)
            else:
                node._visit_children(lambda child: visit(child, calls))

        visit(func.body)
    return used


def _with_fields(func: Function, fields: list[int]) -> Function:
    result = func.body.body
    blocks = list(func.body.blocks)
    if isinstance(result, Tuple):
        values: list[Expr] = [result.fields[index] for index in fields]
    else:
        bindings = {b.var: b.value for block in blocks for b in block.bindings if isinstance(b, VarBinding)}
        known = bindings.get(result) if isinstance(result, Var) else None
        if isinstance(known, Tuple) and all(_visible(known.fields[index]) for index in fields):
            values = [known.fields[index] for index in fields]
        else:
            parts = [VarBinding(_field_var(result, index), TupleGetItem(result, index)) for index in fields]
            blocks.append(BindingBlock(parts))
            values = [part.var for part in parts]
    made: Expr = values[0] if len(values) == 1 else Tuple(values)
    return Function(
        func.params, SeqExpr(blocks, made, made.struct_info_), None, func.is_pure, func.attrs, func.span
    )


def _visible(expr: Expr) -> bool:
    return type(expr) is Var or not isinstance(expr, Var)


def _field_var(result: Expr, index: int) -> Var:
    info = result.struct_info
    assert isinstance(info, TupleStructInfo)
    return Var(f"gv{index}", info.fields[index])


@dataclass(frozen=True)
class RemoveUnusedOutputs(ModulePass):
    """Remove fields of the tuples that private functions return when no caller reads them.

    Before::

        @R.function(private=True)
        def func(x: R.Tensor((8,))):
            a = R.exp(x)
            b = R.log(x)
            return (a, b)

        y = cls.func(x)[0]

    After: ``func`` returns ``a``, and ``y = cls.func(x)``.
    """

    def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """The module with smaller results."""
        used = _used_fields(mod)
        changes: dict[GlobalVar, SignatureChange] = {}
        for var, func in private_functions(mod).items():
            fields = used.get(var.name_hint)
            info = func.ret_struct_info
            if not fields or not isinstance(info, TupleStructInfo) or len(fields) == len(info.fields):
                continue
            kept = sorted(fields)
            changes[var] = SignatureChange(_with_fields(func, kept), kept_fields=kept)
        return change_signatures(mod, changes)
