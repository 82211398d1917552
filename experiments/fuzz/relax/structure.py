"""What programs are made of beside operators: branches, functions, closures, tuples, views, casts of shapes, and effects."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from ir import relax as rx
from ir import tir
from ir.relax.testing.evaluate import Frame

from . import effects
from .kernels import in_place
from .scope import FunctionScope, Rejected, Scope, Value

if TYPE_CHECKING:
    from .program import Writer

R = rx.op


def _plain(writer: Writer) -> Scope:
    """The scope, where its block is no dataflow block."""
    if writer.scope.function.dataflow:
        raise Rejected
    return writer.scope


# -- branches ----------------------------------------------------------------------------
def branch(writer: Writer) -> None:
    """An If whose branches give a value of one struct info."""
    scope = _plain(writer)
    condition = _condition(scope)
    wanted = scope.random.choice(scope.tensors() or [scope.pick()])
    branches = []
    for _ in range(2):
        with scope.nested() as bindings:
            writer.statements(scope.random.randint(0, 3))
            result = _of_struct_info(scope, wanted)
            branches.append(rx.SeqExpr([rx.BindingBlock(list(bindings))] if bindings else [], result.var))
    value = rx.If(condition.var, *(scope.normalized(branch) for branch in branches))
    scope.bind(value, "b", fresh=False)


def _condition(scope: Scope) -> Value:
    """A scalar that is true or false."""
    found = scope.tensors(lambda value: value.dtype == "bool" and value.shape == ())
    if found and scope.random.random() < 0.7:
        return scope.random.choice(found)
    numbers = scope.tensors(
        lambda value: value.dtype in ("float32", "int32", "int64") and value.data.size > 0
    )
    if numbers and scope.random.random() < 0.7:
        largest = scope.bind(R.max(scope.random.choice(numbers).var))
        return scope.bind(R.greater(largest.var, rx.const(1, largest.dtype)))
    return scope.tensor([], "bool")


def _of_struct_info(scope: Scope, wanted: Value) -> Value:
    """A value of the struct info of another one, made from it if there is none."""
    if scope.random.random() < 0.15:
        return wanted
    if wanted.dtype == "bool":
        return scope.bind(R.logical_not(wanted.var))
    return scope.bind(scope.random.choice([R.add, R.multiply, R.maximum])(wanted.var, wanted.var))


# -- functions -----------------------------------------------------------------------------
def call(writer: Writer) -> None:
    """A call of another function of the module: one that is there, or a new private one."""
    scope = writer.scope
    if len(scope.functions) > 2:
        raise Rejected
    known = [item for item in writer.callable if _arguments_for(scope, item[1]) is not None]
    if known and scope.random.random() < 0.4:
        global_var, params, pure = scope.random.choice(known)
        given = _arguments_for(scope, params)
        assert given is not None
    else:
        given = [scope.pick(lambda value: True) for _ in range(scope.random.randint(1, 3))]
        function = FunctionScope(scope.fresh("f"), may_add_params=False)
        frame = Frame()
        with scope.writing(function, frame):
            for value in given:
                _parameter(scope, value)
            pure = writer.body(attributes={}, statements=scope.random.randint(1, 5))
        global_var = scope.builder.add_func(writer.finished, function.name)
        params = list(function.params)
        writer.callable.append((global_var, params, pure))
    if not pure:
        _plain(writer).function.pure = False
    scope.bind(rx.Call(global_var, [value.var for value in given]), "c", fresh=False)


def _parameter(scope: Scope, value: Value) -> None:
    """A parameter for a value of the caller: symbols are the callee's own, of the same names."""
    dims = []
    for dim, extent in zip(value.dims, value.shape):
        if not isinstance(dim, int):
            dim = (
                scope.symbol(extent, dim.name.rstrip("0123456789"))
                if isinstance(dim, tir.Var)
                else scope.symbol(extent, "k")
            )
        dims.append(dim)
    scope.param(scope.fresh("p"), rx.TensorStructInfo(dims, value.dtype), value.data)


def _arguments_for(scope: Scope, params: list[rx.Var]) -> list[Value] | None:
    """Values in scope for the parameters of a function without symbols."""
    found = []
    for param in params:
        info = param.struct_info
        assert isinstance(info, rx.TensorStructInfo) and info.shape_values is not None
        if not all(isinstance(dim, tir.IntImm) for dim in info.shape_values):
            return None
        shape = tuple(int(dim.value) for dim in info.shape_values)  # type: ignore[attr-defined]
        options = scope.tensors(
            lambda value, info=info, shape=shape: (
                value.is_static and value.shape == shape and value.dtype == info.dtype
            )  # type: ignore[misc]
        )
        if not options:
            return None
        found.append(scope.random.choice(options))
    return found


def closure(writer: Writer) -> None:
    """A local function that uses values around it, and one or two calls of it."""
    scope = _plain(writer)
    value = scope.pick()
    outer = scope.function
    function = FunctionScope(scope.fresh("l"), symbols=outer.symbols, may_add_params=False)
    with scope.writing(function, Frame(scope.evaluator.frame)):
        parameter = rx.Var(scope.fresh("p"), value.info)
        function.params.append(parameter)
        scope.evaluator.frame.values[parameter.vid] = value.data
        around = scope.random.sample(outer.values, min(3, len(outer.values)))
        function.values = [*around, Value(parameter, value.data)]
        pure = writer.body(attributes=None, statements=scope.random.randint(1, 3))
    local = rx.Var(function.name, writer.finished.struct_info)
    # A closure is no tensor: it is called, never chosen.
    scope.function.blocks[-1].append(rx.VarBinding(local, writer.finished))
    scope.evaluator.frame.values[local.vid] = scope.evaluator.expr(writer.finished)
    for _ in range(scope.random.randint(1, 2)):
        scope.function.pure &= pure
        scope.bind(rx.Call(local, [value.var]), "c", fresh=False)


# -- tuples, views, shapes ---------------------------------------------------------------------
def pair(writer: Writer) -> None:
    """A tuple that is taken apart again."""
    scope = writer.scope
    made = scope.bind(rx.Tuple([scope.pick().var, scope.pick().var]), "t", fresh=False)
    scope.bind(rx.TupleGetItem(made.var, scope.random.randrange(2)), fresh=False)


def item(writer: Writer) -> None:
    """A field of a tuple in scope."""
    scope = writer.scope
    tuples = [value for value in scope.function.values if isinstance(value.info, rx.TupleStructInfo)]
    if not tuples:
        raise Rejected
    value = scope.random.choice(tuples)
    if not value.info.fields:
        raise Rejected
    scope.bind(rx.TupleGetItem(value.var, scope.random.randrange(len(value.info.fields))), fresh=False)


def view(writer: Writer) -> None:
    """The memory of a value by another name."""
    scope = writer.scope
    value = scope.pick(lambda value: value.is_static)
    count = int(np.prod(value.shape))
    scope.function.overwritable.discard(value.var)
    scope.bind(
        scope.random.choice(
            [
                lambda: R.memory.view(value.var, [count]),
                lambda: R.memory.view(value.var, [1, count]),
                lambda: R.memory.ensure_zero_offset(value.var),
                lambda: R.reshape(value.var, [count]),
                lambda: R.expand_dims(value.var, 0),
            ]
        )(),
        fresh=False,
    )


def alias(writer: Writer) -> None:
    """Another name of a value."""
    scope = writer.scope
    value = scope.pick()
    scope.function.overwritable.discard(value.var)
    scope.bind(value.var, "a", fresh=False)


def cast(writer: Writer) -> None:
    """A match_cast that gives an extent a new name."""
    scope = writer.scope
    value = scope.pick(lambda value: bool(value.shape))
    scope.function.overwritable.discard(value.var)
    dims = list(value.dims)
    axis = scope.random.randrange(len(dims))
    dims[axis] = tir.Var(f"k{value.shape[axis]}_{scope.fresh('')}", "int64")
    info = rx.TensorStructInfo(dims, value.dtype)
    scope.function.symbols[dims[axis].name] = dims[axis]
    scope.function.local_symbols.add(dims[axis])
    scope.evaluator.frame.symbols[dims[axis]] = np.int64(value.shape[axis])
    scope.record(rx.MatchCast(scope.variable("m", info), value.var, info), value.data)


def shape(writer: Writer) -> None:
    """The extents of a value as a tensor."""
    scope = writer.scope
    value = scope.bind(R.shape_of(scope.pick().var), "s", fresh=False)
    scope.bind(R.shape_to_tensor(value.var))


# -- effects and external functions --------------------------------------------------------------
def note(writer: Writer) -> None:
    """A call that shows values to the outside."""
    scope = _plain(writer)
    label = rx.PrimValue(tir.const(scope.random.randint(0, 99), "int64"))
    value = scope.pick()
    _impure(scope, effects.NOTE, [label, value.var], rx.TupleStructInfo([]))


def counted(writer: Writer) -> None:
    """A call whose result is how often it was called."""
    scope = _plain(writer)
    value = scope.pick(dtype="float32")
    _impure(scope, effects.NEXT, [value.var], value.info)


def _impure(scope: Scope, name: str, args: list[Any], info: Any) -> None:
    scope.function.pure = False
    scope.bind(rx.Call(rx.ExternFunc(name), args, None, [info]), "e", fresh=False)


def packed(writer: Writer) -> None:
    """A pure call of an external function, that makes its result or writes it to memory that it is given."""
    scope = writer.scope
    value = scope.pick(dtype="float32")
    if scope.random.random() < 0.5:
        scope.bind(R.call_pure_packed(effects.TWICE, value.var, sinfo_args=[value.info]))
    else:
        scope.bind(R.call_dps_packed(effects.FILL, [value.var], value.info))


def packed_in_place(writer: Writer) -> None:
    """An external function overwrites a value which nobody looks at any more."""
    scope = writer.scope
    found = scope.tensors(lambda value: value.dtype == "float32" and value.var in scope.function.overwritable)
    if not found:
        raise Rejected
    value = scope.random.choice(found)
    scope.bind(R.call_inplace_packed(effects.NEGATE, value.var, inplace_indices=[0], sinfo_args=[value.info]))
    scope.forget_overwritten()


def kernel_in_place(writer: Writer) -> None:
    """A kernel overwrites a value which nobody looks at any more."""
    in_place(writer.scope)


Statement = Callable[["Writer"], None]
STATEMENTS: list[Statement] = [
    branch, branch, call, call, closure, pair, item, item, item, view, view, alias, cast, shape,
    note, note, counted, packed, packed_in_place, kernel_in_place, kernel_in_place,
]  # fmt: skip
"""What may be written; what is there twice is drawn twice as often."""
