"""LiftTransformParams: what a function computes from its weights alone is moved into a function of its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ...expr import GlobalVar
from ...module import IRModule
from ...transform import ModulePass, PassContext
from ..analysis.binding import used_vars
from ..analysis.compile_time import computable_at_compile_time
from ..analysis.remove_unused import remove_all_unused
from ..bind import bind, copy_with_new_vars
from ..block_builder import BlockBuilder
from ..expr import (
    Binding,
    BindingBlock,
    Call,
    DataflowBlock,
    DataflowVar,
    Expr,
    MatchCast,
    SeqExpr,
    Tuple,
    TupleGetItem,
    Var,
    VarBinding,
)
from ..function import Function
from ..function_signature import SignatureChange, change_signatures, reference_to
from ..struct_info import TupleStructInfo
from .eliminate_common_subexpr import expression_key

STOP = "relax.builtin.stop_lift_params"


@dataclass
class _Split:
    """A function in two parts.

    Attributes:
        lifted: bindings that depend on weights alone.
        crossing: the weights and lifted values that the rest uses, in order.
    """

    lifted: list[Binding]
    crossing: list[Var]


def _split(func: Function) -> _Split:
    count = func.attrs.get_int("num_input")
    known: set[Var] = set(func.params[count:])
    candidates = set(computable_at_compile_time(func)) | known
    lifted: list[Binding] = []
    rest: list[Any] = []
    for block in func.body.blocks:
        for binding in block.bindings:
            value: Any = binding.value  # type: ignore[attr-defined]
            stopped = getattr(getattr(value, "op", None), "name", "") == STOP
            if binding.var in candidates and not stopped and known.issuperset(used_vars(value)):
                known.add(binding.var)
                lifted.append(binding)
            else:
                rest.append(value)
    rest.append(func.body.body)
    return _Split(lifted, _used_of(known, rest))


def _used_of(known: set[Var], values: Sequence[Any]) -> list[Var]:
    """The known variables that the values use, each once."""
    return list(dict.fromkeys(var for value in values for var in used_vars(value) if var in known))


def _transform_function(params: Sequence[Var], split: _Split) -> Function:
    """The function from original weights to what the model uses of them."""
    info = TupleStructInfo([param.struct_info for param in params])
    bundle = Var("params", info)
    values: dict[Any, Any] = {}
    bindings: list[Binding] = []
    for index, param in enumerate(params):
        part = DataflowVar(param.name_hint, param.struct_info_)
        bindings.append(VarBinding(part, TupleGetItem(bundle, index)))
        values[param] = part
    for binding in split.lifted:
        new = DataflowVar(binding.var.name_hint, binding.var.struct_info_)
        value = bind(binding.value, values)  # type: ignore[attr-defined]
        if isinstance(binding, MatchCast):
            bindings.append(MatchCast(new, value, binding.struct_info))
        else:
            bindings.append(VarBinding(new, value))
        values[binding.var] = new
    result = Tuple([values[var] for var in split.crossing])
    output = Var("gv", result.struct_info_)
    block = DataflowBlock([*bindings, VarBinding(output, result)])
    func = Function([bundle], SeqExpr((block,), output, output.struct_info_), None, True, {"num_input": 0})
    return copy_with_new_vars(remove_all_unused(func))


def _without_lifted(func: Function, split: _Split) -> Function:
    """The function that takes transformed weights."""
    count = func.attrs.get_int("num_input")
    gone = {binding.var for binding in split.lifted}
    params = [*func.params[:count]]
    values: dict[Any, Any] = {}
    for number, var in enumerate(split.crossing):
        name = var.name_hint if var in func.params else f"transformed_param_{number}"
        new = Var(name, var.struct_info_)
        params.append(new)
        values[var] = new
    blocks: list[BindingBlock] = []
    for block in func.body.blocks:
        kept = [binding for binding in block.bindings if binding.var not in gone]
        if kept:
            blocks.append(block if len(kept) == len(block.bindings) else type(block)(kept, block.span))
    body = bind(SeqExpr(blocks, func.body.body, func.body.struct_info_), values)
    return Function(params, body, func.ret_struct_info, func.is_pure, func.attrs, func.span)


def _shared(functions: dict[GlobalVar, Function]) -> tuple[Sequence[Var], dict[GlobalVar, _Split]]:
    """For functions with the same weights, one split by what all of them compute from the weights."""
    items = list(functions.items())
    first = items[0][1]
    weights = first.params[first.attrs.get_int("num_input") :]
    keys: dict[GlobalVar, dict[Var, Any]] = {}
    for var, func in items:
        own = func.params[func.attrs.get_int("num_input") :]
        table: dict[Var, Any] = {param: ("weight", number) for number, param in enumerate(own)}
        keys[var] = _expression_keys(_split(func).lifted, table)
    common = set.intersection(*[set(table.values()) for table in keys.values()])
    splits: dict[GlobalVar, _Split] = {}
    union: dict[Any, None] = {}
    for var, func in items:
        split = _split(func)
        lifted = [binding for binding in split.lifted if keys[var][binding.var] in common]
        known = set(func.params[func.attrs.get_int("num_input") :]) | {binding.var for binding in lifted}
        gone = {binding.var for binding in lifted}
        rest = [item.value for block in func.body.blocks for item in block.bindings if item.var not in gone]  # type: ignore[attr-defined]
        crossing = _used_of(known, [*rest, func.body.body])
        splits[var] = _Split(lifted, crossing)
        union.update(dict.fromkeys(keys[var][v] for v in crossing))
    # Every function takes the same transformed weights in the same order.
    for var, _func in items:
        by_key = {key: v for v, key in reversed(list(keys[var].items()))}
        splits[var] = _Split(splits[var].lifted, [by_key[key] for key in union])
    return weights, splits


def _expression_keys(bindings: Sequence[Binding], table: dict[Var, Any]) -> dict[Var, Any]:
    """Keys that are equal for values which functions compute alike from their (equally ordered) weights."""
    numbers = {id(var): key for var, key in table.items()}

    def renumbered(key: Any) -> Any:
        if isinstance(key, tuple):
            return tuple(renumbered(item) for item in key)
        return numbers.get(key, key) if isinstance(key, int) else key

    result = dict(table)
    for binding in bindings:
        key = renumbered(expression_key(binding.value))  # type: ignore[attr-defined]
        result[binding.var] = key
        numbers[id(binding.var)] = key
    return result


@dataclass(frozen=True)
class LiftTransformParams(ModulePass):
    """Move computations on weights out of functions with the attribute ``num_input``.

    Before::

        def main(x: R.Tensor((1, 4)), w: R.Tensor((4, 4))):
            R.func_attr({"num_input": 1})
            w_t = R.permute_dims(w)
            return R.matmul(x, w_t)

    After::

        def main(x: R.Tensor((1, 4)), w_t: R.Tensor((4, 4))):
            R.func_attr({"num_input": 1})
            return R.matmul(x, w_t)

        def main_transform_params(params: R.Tuple(R.Tensor((4, 4)))):
            R.func_attr({"num_input": 0})
            w = params[0]
            gv = (R.permute_dims(w),)
            return gv

    Args:
        shared_transform: False makes one transforming function per function; True one for all (``transform_params``) with
            what they have in common; a list names the functions that share one.
    """

    shared_transform: bool | Sequence[str] = False

    def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """The module with transforming functions."""
        targets = {
            var: func
            for var, func in mod.functions.items()
            if isinstance(func, Function) and "num_input" in func.attrs
        }
        if not targets:
            return mod
        functions: dict[GlobalVar, Any] = dict(mod.functions)
        changes: dict[GlobalVar, SignatureChange] = {}
        if self.shared_transform is False:
            for var, func in targets.items():
                split = _split(func)
                weights = func.params[func.attrs.get_int("num_input") :]
                transform = _add(
                    functions,
                    f"{var.name_hint}_transform_params",
                    _transform_function(weights, split),
                    func,
                )
                changes[var] = _change(func, split, transform)
            return change_signatures(mod.replace(functions=functions), changes)
        names = () if self.shared_transform is True else tuple(self.shared_transform)
        chosen = {var: func for var, func in targets.items() if not names or var.name_hint in names}
        shared_weights, splits = _shared(chosen)
        first = next(iter(chosen))
        transform = _add(
            functions, "transform_params", _transform_function(shared_weights, splits[first]), chosen[first]
        )
        for var, func in chosen.items():
            changes[var] = _change(func, splits[var], transform)
        return change_signatures(mod.replace(functions=functions), changes)


def _add(functions: dict[GlobalVar, Any], name: str, transform: Function, original: Function) -> GlobalVar:
    if "global_symbol" in original.attrs:
        transform = transform.with_attr("global_symbol", name)
    var = reference_to(name, transform)
    functions[var] = transform
    return var


def _change(func: Function, split: _Split, transform: GlobalVar) -> SignatureChange:
    """A function that takes transformed weights; who calls it in the module transforms them before."""
    count = func.attrs.get_int("num_input")

    def call(builder: BlockBuilder, old: Call) -> Expr:
        weights = builder.emit(Call(transform, (Tuple(old.args[count:]),)))
        transformed = [builder.emit(TupleGetItem(weights, index)) for index in range(len(split.crossing))]
        return old.with_args((*old.args[:count], *transformed))

    return SignatureChange(_without_lifted(func, split), call)
