"""What Relax calls read, write and alias."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import runners
from ir import relax
from ir.relax import transform
from ir.relax.analysis.memory import MemoryAnalysis
from ir.relax.frontend import nn
from ir.relax.testing import evaluate
from ir.relax.testing.values import EvaluationError
from ir.script import ir as I
from ir.script import relax as R
from ir.script import tir as T
from runners.program import ArgumentError

from .relax_running import executors, holds, machine, plain


@I.ir_module
class Kernels:
    @T.prim_func(private=True)
    def add_to(a: T.Buffer((4,), "float32"), b: T.Buffer((4,), "float32")):
        for i in range(4):
            with T.block("b"):
                vi = T.axis.remap("S", [i])
                a[vi] = a[vi] + b[vi]

    @T.prim_func(private=True)
    def double(a: T.Buffer((4,), "float32"), b: T.Buffer((4,), "float32")):
        for i in range(4):
            with T.block("b"):
                vi = T.axis.remap("S", [i])
                b[vi] = a[vi] * T.float32(2)

    @T.prim_func(private=True)
    def careless(a: T.Buffer((4,), "float32"), b: T.Buffer((4,), "float32")):
        for i in range(4):
            with T.block("b"):
                vi = T.axis.remap("S", [i])
                b[vi] = a[vi]
                a[vi] = T.float32(0)

    @R.function(private=True)
    def same(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
        return x

    @R.function(private=True)
    def viewed(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
        square = R.reshape(x, R.shape([2, 2]))
        row = R.reshape(square, R.shape([4]))
        return row

    @R.function(private=True)
    def write_to(a: R.Tensor((4,), "float32"), b: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
        cls = Kernels
        gv = R.call_tir_inplace(cls.add_to, (a, b), out_sinfo=R.Tensor((4,), "float32"), inplace_indices=[0])
        return gv


VECTOR = relax.TensorStructInfo((4,), "float32")
X, Y = np.float32([1, 2, 3, 4]), np.float32([10, 20, 30, 40])


def program(build: Any, n_params: int = 2) -> Any:
    """``main`` of some vectors of four numbers, beside ``Kernels``."""
    builder = relax.BlockBuilder(Kernels)
    params = [relax.Var(f"x{number}", VECTOR) for number in range(n_params)]
    with builder.function("main", params):
        builder.emit_func_output(build(builder, *params))
    return builder.finalize()


def kernel(builder: Any, name: str) -> Any:
    return builder.get().get_global_var(name)


def added(builder: Any, a: Any, b: Any) -> Any:
    """``a`` with ``b`` added to it in place."""
    return builder.emit(relax.op.call_tir_inplace(kernel(builder, "add_to"), [a, b], 0, VECTOR))


@pytest.mark.meaning("relax-value", "relax-view")
@pytest.mark.parametrize("view", ["reshape", "expand_dims", "function", "tuple", "branch"])
def test_a_view_keeps_its_memory_alive(view: str) -> None:
    """What a name stands for does not change while other values come and go."""

    def build(builder: Any, x: Any, y: Any) -> Any:
        own = builder.emit(relax.op.exp(x))
        if view == "function":
            seen = builder.emit(relax.Call(kernel(builder, "same"), (own,)))
        elif view == "tuple":
            seen = builder.emit(relax.TupleGetItem(builder.emit(relax.Tuple([own, y])), 0))
        elif view == "branch":
            condition = builder.emit(relax.op.less(relax.op.sum(y), relax.op.sum(x)))
            seen = builder.emit(relax.If(condition, relax.SeqExpr([], y), relax.SeqExpr([], own)))
        else:
            seen = builder.emit(getattr(relax.op, view)(own, *{"reshape": [(2, 2)]}.get(view, [0])))
            seen = builder.emit(relax.op.reshape(seen, (4,)))
        others = x
        for _ in range(3):
            others = builder.emit(relax.op.nn.softmax(builder.emit(relax.op.add(others, y))))
        return builder.emit(relax.op.add(seen, others))

    mod = program(build)
    expected = np.exp(X) + evaluate(mod, X, Y) * 0
    for name, execute in executors(mod):
        found = plain(execute(X.copy(), Y.copy()))
        assert np.all(found > expected * 0.999) and np.all(found <= expected * 1.001 + 1), name


@pytest.mark.meaning("relax-fresh")
def test_a_fresh_result_shares_nothing() -> None:
    def build(builder: Any, x: Any, y: Any) -> Any:
        copy = builder.emit(relax.op.add(x, relax.const(np.zeros(4, "float32"))))
        return builder.emit(relax.Tuple([added(builder, copy, y), x]))

    holds(program(build), [X, Y], (X + Y, X))
    bound = transform.LegalizeOps()(program(build))
    aliases = MemoryAnalysis(bound).aliases(bound["main"])
    x = bound["main"].params[0]
    assert aliases.sharing(x) == {x, *[v for v in aliases.sharing(x) if v.struct_info != VECTOR]}


@pytest.mark.meaning("relax-write")
@pytest.mark.parametrize("through", ["kernel", "function"])
def test_a_write_comes_where_the_program_says(through: str) -> None:
    def build(builder: Any, x: Any, y: Any) -> Any:
        own = builder.emit(relax.op.negative(x))
        before = builder.emit(relax.op.multiply(own, y))
        if through == "kernel":
            written = added(builder, own, y)
        else:
            written = builder.emit(relax.Call(kernel(builder, "write_to"), (own, y)))
        after = builder.emit(relax.op.multiply(written, y))
        return builder.emit(relax.Tuple([before, after]))

    holds(program(build), [X, Y], (-X * Y, (Y - X) * Y))


@pytest.mark.meaning("relax-write")
def test_what_was_overwritten_is_read_by_its_new_name_only() -> None:
    def build(builder: Any, x: Any, y: Any) -> Any:
        own = builder.emit(relax.op.negative(x))
        added(builder, own, y)
        return builder.emit(relax.op.exp(own))

    with pytest.raises(EvaluationError, match="overwrote its memory"):
        evaluate(program(build), X.copy(), Y.copy())


class Decoder(nn.Module):
    def __init__(self) -> None:
        self.keys = nn.KVCache(4, [2])
        self.values = nn.KVCache(4, [2])

    def forward(self, k: nn.Tensor, v: nn.Tensor) -> tuple[nn.Tensor, nn.Tensor]:
        self.keys.append(k)
        self.values.append(v)
        return self.keys.view(1), self.values.view(1)


@pytest.mark.meaning("relax-identity")
def test_two_caches_are_two_objects() -> None:
    spec = {"k": nn.spec.Tensor([1, 2], "float32"), "v": nn.spec.Tensor([1, 2], "float32")}
    mod, _ = Decoder().export_tvm({"forward": spec})
    vm = machine(mod)
    k, v = np.float32([[1, 2]]), np.float32([[3, 4]])
    (found_k, found_v), _ = vm["forward"](k, v, *vm["_initialize_effect"]())
    np.testing.assert_array_equal(found_k.numpy(), k)
    np.testing.assert_array_equal(found_v.numpy(), v)


@pytest.mark.meaning("relax-identity")
def test_equal_values_that_are_overwritten_are_two() -> None:
    def build(builder: Any, x: Any, y: Any) -> Any:
        first = builder.emit(relax.op.zeros((4,), "float32"))
        second = builder.emit(relax.op.zeros((4,), "float32"))
        return builder.emit(relax.Tuple([added(builder, first, x), added(builder, second, y)]))

    holds(program(build), [X, Y], (X, Y))


@pytest.mark.meaning("relax-inplace")
def test_an_optimization_writes_only_what_nobody_else_sees() -> None:
    def build(builder: Any, x: Any, y: Any) -> Any:
        with builder.dataflow():
            view = builder.emit(relax.op.reshape(x, (4,)))
            one = builder.emit(relax.op.add(view, y))
            two = builder.emit(relax.op.nn.relu(one))
            out = builder.emit_output(relax.Tuple([builder.emit(relax.op.negative(one)), two]))
        return out

    mod = transform.DataflowUseInplaceCalls()(program(build))
    holds(mod, [-X, Y], (X - Y, np.maximum(Y - X, 0)))
    for _, execute in executors(mod):
        x, y = X.copy(), Y.copy()
        execute(x, y)
        np.testing.assert_array_equal((x, y), (X, Y))


@pytest.mark.meaning("relax-inplace", "relax-caller")
@pytest.mark.parametrize("through", ["kernel", "function"])
def test_the_very_array_that_is_passed_is_written_and_returned(through: str) -> None:
    def build(builder: Any, x: Any, y: Any) -> Any:
        if through == "kernel":
            return added(builder, x, y)
        return builder.emit(relax.Call(kernel(builder, "write_to"), (x, y)))

    mod = program(build)
    for name, execute in executors(mod):
        x = X.copy()
        found = execute(x, Y.copy())
        np.testing.assert_array_equal(x, X + Y, err_msg=name)
        assert np.shares_memory(getattr(found, "data", found) if name != "evaluated" else found, x), name
    for optimized in (False, True):
        passed = runners.array(X)
        assert machine(mod, optimized)["main"](passed, runners.array(Y)) is passed


@pytest.mark.meaning("relax-caller")
@pytest.mark.parametrize("unused", [False, True])
def test_writing_a_parameter_is_seen_by_the_caller(unused: bool) -> None:
    """Also where nobody uses the result of the call."""

    def build(builder: Any, x: Any, y: Any) -> Any:
        with builder.dataflow():
            written = added(builder, x, y)
            out = builder.emit_output(relax.op.negative(y if unused else written))
        return out

    for mod in (program(build), transform.DeadCodeElimination()(program(build))):
        for name, execute in executors(mod):
            x = X.copy()
            execute(x, Y.copy())
            np.testing.assert_array_equal(x, X + Y, err_msg=name)


@pytest.mark.meaning("relax-caller")
def test_an_array_that_may_only_be_read_is_not_written() -> None:
    mod = program(lambda builder, x, y: added(builder, x, y))
    frozen = X.copy()
    frozen.setflags(write=False)
    for _, execute in executors(mod):
        with pytest.raises((ArgumentError, EvaluationError), match="read"):
            execute(frozen, Y.copy())
    np.testing.assert_array_equal(frozen, X)


@pytest.mark.meaning("relax-caller")
@pytest.mark.parametrize("constant", ["direct", "view", "folded"])
def test_a_call_that_writes_a_constant_writes_a_copy(constant: str) -> None:
    def build(builder: Any, x: Any, y: Any) -> Any:
        value: Any = relax.const(X)
        if constant == "view":
            value = builder.emit(relax.op.reshape(relax.const(X.reshape(2, 2)), (4,)))
        elif constant == "folded":
            value = builder.emit(relax.op.subtract(relax.const(X + 1), relax.const(np.float32(1))))
        return added(builder, value, y)

    holds(program(build), [X, Y], X + Y)


@pytest.mark.meaning("relax-call-tir")
def test_call_tir_gives_new_memory() -> None:
    def build(builder: Any, x: Any, y: Any) -> Any:
        twice = builder.emit(relax.op.call_tir(kernel(builder, "double"), [x], VECTOR))
        again = builder.emit(relax.op.call_tir(kernel(builder, "double"), [twice], VECTOR))
        return builder.emit(relax.Tuple([x, twice, again]))

    holds(program(build), [X, Y], (X, 2 * X, 4 * X))


@pytest.mark.meaning("relax-call-tir")
def test_a_kernel_that_writes_its_input_is_refused() -> None:
    def build(builder: Any, x: Any, y: Any) -> Any:
        return builder.emit(relax.op.call_tir(kernel(builder, "careless"), [x], VECTOR))

    with pytest.raises(EvaluationError, match="writes to its argument 0"):
        evaluate(program(build), X.copy(), Y.copy())


@pytest.mark.meaning("relax-view", "relax-caller")
@pytest.mark.parametrize("view", ["reshape", "expand_dims", "reshape twice", "function"])
def test_a_call_that_writes_a_view_of_a_parameter_writes_it_or_a_copy(view: str) -> None:
    """Its result is one thing; the caller's array is as before, or as written."""

    def build(builder: Any, x: Any, y: Any) -> Any:
        if view == "reshape":
            seen = builder.emit(relax.op.reshape(x, (4,)))
        elif view == "expand_dims":
            seen = builder.emit(relax.op.squeeze(builder.emit(relax.op.expand_dims(x, [0])), [0]))
        elif view == "function":
            seen = builder.emit(relax.Call(kernel(builder, "viewed"), (x,)))
        else:
            seen = builder.emit(relax.op.reshape(builder.emit(relax.op.reshape(x, (2, 2))), (4,)))
        return added(builder, seen, y)

    mod = program(build)
    holds(mod, [X, Y], X + Y)
    for name, execute in executors(mod):
        x = X.copy()
        np.testing.assert_array_equal(plain(execute(x, Y.copy())), X + Y, err_msg=name)
        assert np.array_equal(x, X) or np.array_equal(x, X + Y), name
