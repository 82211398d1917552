"""CopySharedOperands: an in-place call that is given one array twice reads what was there before, on processors and on devices."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import runners
from ir import IRModule, relax
from ir.relax import transform
from ir.relax.testing import evaluate
from ir.script import tir as T
from ir.target import Target
from ir.tir import Var
from runners.program import ArgumentError
from schedules.dlight import ApplyDefaultSchedule, gpu_rules

N = 64
INFO = relax.TensorStructInfo((N,), "float32")
X = np.arange(N, dtype="float32")


@T.prim_func(private=True)
def add_reversed(A: T.Buffer((N,), "float32"), B: T.Buffer((N,), "float32")):
    for i in range(N):
        with T.block("add"):
            vi = T.axis.spatial(N, i)
            A[vi] = A[vi] + B[N - 1 - vi]


@T.prim_func(private=True)
def both(A: T.Buffer((N,), "float32"), B: T.Buffer((N,), "float32")):
    for i in range(N):
        with T.block("add"):
            vi = T.axis.spatial(N, i)
            A[vi] = A[vi] + T.float32(1)
            B[vi] = B[vi] + T.float32(2)


def program(form: str) -> IRModule:
    """``main(x)``, which adds x in reverse order to x (or to a function's or a tuple's field of it)."""
    builder = relax.BlockBuilder()
    kernel = builder.add_func(both if form == "both" else add_reversed, "kernel")
    if form == "function":
        a, b = relax.Var("a", INFO), relax.Var("b", INFO)
        with builder.function("through", [a, b], private=True):
            out = builder.emit(relax.op.call_tir_inplace(kernel, (a, b), 0, INFO))
            builder.emit_func_output(out)
        through = builder.get().get_global_var("through")
    x = relax.Var("x", INFO)
    with builder.function("main", [x]):
        y = builder.emit(relax.op.add(x, relax.const(np.float32(0))))
        if form == "function":
            result: Any = builder.emit(relax.Call(through, (y, y)))
        elif form == "view":
            wide = builder.emit(relax.op.reshape(y, (8, 8)))
            result = relax.op.call_tir_inplace(
                kernel, (builder.emit(relax.op.reshape(wide, (N,))), y), 0, INFO
            )
        elif form == "tuple":
            pair = builder.emit(relax.Tuple((y, y)))
            result = relax.op.call_tir_inplace(kernel, pair, 0, INFO)
        elif form == "both":
            result = relax.op.call_tir_inplace(kernel, (y, y), [0, 1], [INFO, INFO])
        else:
            result = relax.op.call_tir_inplace(kernel, (y, y), 0, INFO)
        builder.emit_func_output(builder.emit(result) if form != "function" else result)
    return builder.finalize()


@pytest.mark.parametrize("form", ["call", "function", "view", "tuple", "both"])
@pytest.mark.meaning("relax-inplace")
def test_what_is_read_is_what_was_there_before(form: str) -> None:
    mod = program(form)
    vm = runners.VirtualMachine(relax.build(mod, "llvm"), runners.cpu())
    expected = [X + 1, X + 2] if form == "both" else [np.full(N, N - 1, "float32")]
    for found in (vm["main"](X), evaluate(mod, X)):
        for item, value in zip(found if form == "both" else [found], expected, strict=True):
            np.testing.assert_array_equal(np.asarray(item), value)


def test_only_what_is_shared_is_copied_and_not_for_kernels_that_take_one_array() -> None:
    def copies(mod: IRModule) -> int:
        made = transform.CopySharedOperands()(mod)
        return sum(var.name_hint.startswith("copy") for var in made.functions)

    mod = program("call")
    assert copies(mod) == 1
    (kernel,) = [var for var in mod.functions if var.name_hint == "kernel"]
    mod.update_func(kernel, add_reversed.with_attr("tir.noalias", False))
    assert copies(mod) == 0
    builder = relax.BlockBuilder()
    kernel = builder.add_func(add_reversed, "kernel")
    x, y = relax.Var("x", INFO), relax.Var("y", INFO)
    with builder.function("main", [x, y]):
        builder.emit_func_output(builder.emit(relax.op.call_tir_inplace(kernel, (x, y), 0, INFO)))
    assert copies(builder.finalize()) == 0


@pytest.mark.parametrize("symbolic", [False, True])
def test_one_array_for_two_parameters_that_meet_in_a_call_is_refused(symbolic: bool) -> None:
    @T.prim_func(private=True)
    def kernel(a: T.handle, b: T.handle):
        n = T.int64()
        A, B = T.match_buffer(a, (n,), "float32"), T.match_buffer(b, (n,), "float32")
        for i in range(n):
            with T.block("add"):
                vi = T.axis.spatial(n, i)
                A[vi] = A[vi] + B[n - 1 - vi]

    info = relax.TensorStructInfo((Var("n", "int64") if symbolic else N,), "float32")
    builder = relax.BlockBuilder()
    added = builder.add_func(kernel if symbolic else add_reversed, "kernel")
    x, y = relax.Var("x", info), relax.Var("y", relax.TupleStructInfo([info]))
    with builder.function("main", [x, y]):
        field = builder.emit(relax.TupleGetItem(y, 0))
        builder.emit_func_output(builder.emit(relax.op.call_tir_inplace(added, (x, field), 0, info)))
    main = runners.VirtualMachine(relax.build(builder.finalize(), "llvm"), runners.cpu())["main"]
    given = np.concatenate([X, X])
    with pytest.raises(
        ArgumentError, match=r"argument x is overwritten while y\[0\] is read, and they are the same memory"
    ):
        main(given[:N], (given[:N],))
    with pytest.raises(ArgumentError, match="the same memory"):
        main(given[:N], (given[1 : N + 1],))
    np.testing.assert_array_equal(main(given[:N], (given[N:],)).numpy(), np.full(N, N - 1))


def test_copies_for_a_device_are_kernels() -> None:
    """They are made behind the passes that schedule."""
    with Target("nvidia/nvidia-a100"):
        scheduled = ApplyDefaultSchedule(*gpu_rules())(transform.LegalizeOps()(program("call")))
        made = transform.CopySharedOperands()(scheduled)
        assert "thread_binding" in made["copy"].script()
