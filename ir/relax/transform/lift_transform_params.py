"""LiftTransformParams: what a function computes from its weights alone is moved into a function of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from ...error import IRValueError
from ...expr import GlobalVar, RelaxExpr
from ...module import IRModule
from ...structural import structural_equal
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
from ..struct_info import ObjectStructInfo, StructInfo, TensorStructInfo, TupleStructInfo
from ..symbolic_vars import definable_tir_vars_in_struct_info, tir_vars_in
from .eliminate_common_subexpr import expression_key

STOP = "relax.builtin.stop_lift_params"


@dataclass
class _Split:
    """A function in two parts.

    Attributes:
        lifted: bindings that depend on weights alone.
        crossing: the weights and lifted values that the rest uses, in order.
        same: for other variables that the rest uses, the one in ``crossing`` whose value they have.
    """

    lifted: list[Binding]
    crossing: list[Var]
    same: dict[Var, Var] = field(default_factory=dict)


def _weights(func: Function) -> tuple[Var, ...]:
    return tuple(func.params[func.attrs.get_int("num_input") :])


def _split(func: Function, mod: IRModule, only: Callable[[Var], bool] = lambda var: True) -> _Split:
    """The function split by what depends on weights alone, and of that by what ``only`` accepts."""
    weights = _weights(func)
    known = set(weights) - _of_untold_extents(weights)
    candidates = set(computable_at_compile_time(func, mod)) | known
    lifted: list[Binding] = []
    rest: list[Any] = []
    for block in func.body.blocks:
        for binding in block.bindings:
            value: Any = binding.value  # type: ignore[attr-defined]
            stopped = getattr(getattr(value, "op", None), "name", "") == STOP
            is_lifted = binding.var in candidates and not stopped and known.issuperset(used_vars(value))
            if is_lifted and only(binding.var):
                known.add(binding.var)
                lifted.append(binding)
            else:
                rest += [value, binding.var.struct_info]
    crossing = _used_of(known.union(weights), [*rest, func.body.body])
    return _Split(lifted, [*crossing, *_telling_extents(func, crossing, [*rest, func.ret_struct_info])])


def _of_untold_extents(weights: Sequence[Var]) -> set[Var]:
    """The weights with extents that no weight tells, such as n + 4 where only an input has n: nothing that needs them is lifted."""
    told = {symbol for var in weights for symbol in definable_tir_vars_in_struct_info(var.struct_info)}
    return {var for var in weights if not told.issuperset(tir_vars_in(var.struct_info))}


def _used_of(known: set[Var], values: Sequence[Any]) -> list[Var]:
    """The known variables that the values use, each once."""
    found = (var for value in values if isinstance(value, RelaxExpr) for var in used_vars(value))
    return list(dict.fromkeys(var for var in found if var in known))


def _telling_extents(func: Function, crossing: Sequence[Var], rest: Sequence[Any]) -> list[Var]:
    """The weights that tell extents which the rest mentions and nothing else that it is given tells."""
    inputs = func.params[: func.attrs.get_int("num_input")]
    told = {
        symbol
        for var in (*inputs, *crossing)
        for symbol in definable_tir_vars_in_struct_info(var.struct_info)
    }
    own = {symbol for param in func.params for symbol in definable_tir_vars_in_struct_info(param.struct_info)}
    found: list[Var] = []
    for part in rest:
        for symbol in () if part is None else tir_vars_in(part):
            if symbol in own - told:
                weight = next(
                    item
                    for item in _weights(func)
                    if symbol in definable_tir_vars_in_struct_info(item.struct_info)
                )
                found.append(weight)
                told.update(definable_tir_vars_in_struct_info(weight.struct_info))
    return found


def _of_any_shape(info: StructInfo) -> StructInfo:
    if not isinstance(info, TensorStructInfo):
        return ObjectStructInfo()
    return TensorStructInfo(None, info.dtype, info.vdevice, info.ndim)


def _transform_function(params: Sequence[Var], split: _Split) -> Function:
    """The function from original weights to what the model uses of them."""
    untold = _of_untold_extents(params)
    infos = [_of_any_shape(param.struct_info) if param in untold else param.struct_info for param in params]
    bundle = Var("params", TupleStructInfo(infos))
    values: dict[Any, Any] = {}
    bindings: list[Binding] = []
    for index, (param, info) in enumerate(zip(params, infos, strict=True)):
        part = DataflowVar(param.name_hint, info)
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
    values.update({var: values[other] for var, other in split.same.items()})
    blocks: list[BindingBlock] = []
    for block in func.body.blocks:
        kept = [binding for binding in block.bindings if binding.var not in gone]
        if kept:
            blocks.append(block if len(kept) == len(block.bindings) else type(block)(kept, block.span))
    body = bind(SeqExpr(blocks, func.body.body, func.body.struct_info_), values)
    return Function(params, body, func.ret_struct_info, func.is_pure, func.attrs, func.span)


def _shared(
    functions: dict[GlobalVar, Function], mod: IRModule
) -> tuple[Sequence[Var], _Split, dict[GlobalVar, _Split]]:
    """For functions that share weights: all weights, their transformation by what all functions compute, and each one's split.

    Weights are the same where they have the same name. A function takes what any of them needs, in one order.
    """
    named = _named_weights(functions)
    weights = {key: var for table in reversed(named.values()) for var, key in table.items()}
    order = list(dict.fromkeys(key for table in named.values() for key in table.values()))
    keys = {
        var: _expression_keys(_split(func, mod).lifted, dict(named[var])) for var, func in functions.items()
    }
    common = set.intersection(*[set(table.values()) for table in keys.values()])
    splits: dict[GlobalVar, _Split] = {}
    needed: dict[Any, None] = {}
    for var, func in functions.items():
        table = keys[var]
        splits[var] = _split(func, mod, lambda item, table=table: table.get(item) in common)  # type: ignore[misc]
        needed.update(dict.fromkeys(table[item] for item in splits[var].crossing))
    for var, split in splits.items():
        own = {key: item for item, key in reversed(list(keys[var].items()))}
        split.same = {item: own[keys[var][item]] for item in split.crossing}
        # What only others use is taken as well, under a variable of its own.
        split.crossing = [
            own[key] if key in own else Var(weights[key].name_hint, weights[key].struct_info_)
            for key in needed
        ]
    first = next(iter(functions))
    here = {key: item for item, key in reversed(list(keys[first].items()))}
    bundle = [here.get(key, weights[key]) for key in order]
    transform = _Split(splits[first].lifted, [here.get(key, weights.get(key)) for key in needed])  # type: ignore[misc]
    return bundle, transform, splits


def _named_weights(functions: dict[GlobalVar, Function]) -> dict[GlobalVar, dict[Var, Any]]:
    """A key of each function's weights: by name; by place where all have weights of the same types under other names."""
    tables = {
        var: {param: ("weight", param.name_hint) for param in _weights(func)}
        for var, func in functions.items()
    }
    names = [set(table.values()) for table in tables.values()]
    if any(len(found) != len(table) for found, table in zip(names, tables.values(), strict=True)) or (
        len(names) > 1 and not set.intersection(*names)
    ):
        tables = {
            var: {param: ("weight", number) for number, param in enumerate(_weights(func))}  # type: ignore[misc]
            for var, func in functions.items()
        }
    first: dict[Any, tuple[GlobalVar, Var]] = {}
    for var, table in tables.items():
        for param, key in table.items():
            owner, other = first.setdefault(key, (var, param))
            if not structural_equal(param.struct_info, other.struct_info, map_free_vars=True):
                raise IRValueError(
                    f"LiftTransformParams: functions that share a transformation must share their weights, but {key[1]} is "
                    f"{other.struct_info} in {owner.name_hint} and {param.struct_info} in {var.name_hint}"
                )
    return tables


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
            what they have in common; a list names the functions that share one. Functions share the weights of the same
            name; the transformation takes the weights of all of them, in order of their appearance.

    Raises:
        IRValueError: weights that functions share differ in type, or a function is named that has no weights.
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
                split = _split(func, mod)
                name = f"{var.name_hint}_transform_params"
                transform = _add(functions, name, _transform_function(_weights(func), split), func)
                changes[var] = _change(func, split, transform)
            return change_signatures(mod.replace(functions=functions), changes)
        names = () if self.shared_transform is True else tuple(self.shared_transform)
        chosen = {var: func for var, func in targets.items() if not names or var.name_hint in names}
        for name in names:
            if name not in {var.name_hint for var in chosen}:
                raise IRValueError(
                    f"LiftTransformParams: {name!r} is no function with the attribute num_input; there are "
                    + ", ".join(sorted(var.name_hint for var in targets))
                )
        weights, common, splits = _shared(chosen, mod)
        first = next(iter(chosen))
        transform = _add(functions, "transform_params", _transform_function(weights, common), chosen[first])
        for var, func in chosen.items():
            changes[var] = _change(func, splits[var], transform, len(weights))
        return change_signatures(mod.replace(functions=functions), changes)


def _add(functions: dict[GlobalVar, Any], name: str, transform: Function, original: Function) -> GlobalVar:
    if "global_symbol" in original.attrs:
        transform = transform.with_attr("global_symbol", name)
    var = reference_to(name, transform)
    functions[var] = transform
    return var


def _change(
    func: Function, split: _Split, transform: GlobalVar, n_shared: int | None = None
) -> SignatureChange:
    """A function that takes transformed weights; who calls it in the module transforms them before."""
    count = func.attrs.get_int("num_input")

    def call(builder: BlockBuilder, old: Call) -> Expr:
        if n_shared is not None and len(old.args) - count != n_shared:
            raise IRValueError(
                f"LiftTransformParams: {old.op} is called in the module with {len(old.args) - count} weights, the shared"
                f" transformation takes {n_shared}"
            )
        weights = builder.emit(Call(transform, (Tuple(old.args[count:]),)))
        transformed = [builder.emit(TupleGetItem(weights, index)) for index in range(len(split.crossing))]
        return old.with_args((*old.args[:count], *transformed))

    return SignatureChange(_without_lifted(func, split), call)
