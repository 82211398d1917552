"""InjectPTXLDG32: which loads get a predicate, and that they load the same."""

import numpy as np
import pytest

from ir import IRModule, tir
from ir.script import from_source
from ir.script import tir as T
from ir.tir.interpreter import InterpreterError, run
from ir.transform import PassContext

PASS = tir.transform.InjectPTXLDG32(True)


def kernel(statement, scope="local", dtype="float32", attrs='{"tir.noalias": True}', more=""):
    return from_source(
        f"""
from ir.script import tir as T

@T.prim_func
def main(A: T.Buffer((64,), "{dtype}"), C: T.Buffer((64,), "{dtype}"), n: T.int32):
    T.func_attr({attrs})
    tx = T.launch_thread("threadIdx.x", 32)
    B_data = T.allocate([64], "{dtype}", "{scope}")
    B = T.decl_buffer((64,), "{dtype}", data=B_data, scope="{scope}")
    {statement}
    {more}
    C[tx] = B[tx]
"""
    )


GUARDED = "B[tx] = T.if_then_else(tx < n, A[tx + n], T.float32(0))"


@pytest.mark.parametrize("scope", ["local", "shared", "shared.dyn"])
def test_a_guarded_load(check, scope):
    before = kernel(GUARDED, scope)
    after = kernel("T.evaluate(T.ptx_ldg32(B_data, tx < n, A[tx + n], tx))", scope)

    check(PASS, before, after)


@pytest.mark.parametrize(
    ("statement", "options"),
    [
        ("B[tx] = T.if_then_else(tx < n, A[tx], T.float32(1))", {}),
        ("B[tx] = T.if_then_else(tx < n, A[tx], T.float32(-0.0))", {}),
        ("B[tx] = T.if_then_else(tx < n, A[tx] * T.float32(2), T.float32(0))", {}),
        ("B[tx] = A[tx]", {}),
        ("B[tx] = T.if_then_else(tx < n, A[tx], T.float64(0))", {"dtype": "float64"}),
        (GUARDED, {"scope": "global"}),
        (GUARDED, {"attrs": "{}"}),  # A and C may be one array
        (GUARDED, {"more": "A[tx] = T.float32(0)"}),
        ("B[tx] = T.if_then_else(tx < n, C[tx], T.float32(0))", {}),
        (
            "B[tx * 2 : tx * 2 + 2] = T.if_then_else(tx < n, A[tx * 2 : tx * 2 + 2], T.Broadcast(T.float32(0), 2))",
            {},
        ),
    ],
)
def test_everything_else_is_loaded_as_before(statement, options):
    func = kernel(statement, **options)

    assert PASS(IRModule({"main": func}))["main"] is func


def test_the_option_switches_it_on():
    func = kernel(GUARDED)
    mod, plain = IRModule({"main": func}), tir.transform.InjectPTXLDG32()

    assert plain(mod)["main"] is func
    with PassContext(config={"tir.ptx_ldg32": True}):
        assert "ptx_ldg32" in plain(mod)["main"].script()
        assert tir.transform.InjectPTXLDG32(False)(mod)["main"] is func


def test_nothing_is_read_where_the_condition_does_not_hold():
    @T.prim_func
    def main(A: T.Buffer((4,), "float32"), C: T.Buffer((4,), "float32"), n: T.int32):
        for i in range(4):
            T.evaluate(T.ptx_ldg32(C.data, i < n, A[i * 2], i))

    a, c = np.arange(1, 5, dtype="float32"), np.full(4, 7, "float32")
    run(main, a, c, 2)
    np.testing.assert_array_equal(c, [1, 3, 0, 0])
    with pytest.raises(InterpreterError, match="A"):
        run(main, a, c, 3)
