"""The interpreter: blocks, reductions, bounds, unwritten memory, calls; ``tests/semantics`` holds it to the rules of the language."""

from __future__ import annotations

import numpy as np
import pytest

import ir
from ir import IRModule, te, tir
from ir.codegen.build import build
from ir.script import from_source
from ir.script import tir as T
from ir.tir.interpreter import InterpreterError, UndefinedError, run


def test_reduction_block_with_predicate() -> None:
    @T.prim_func
    def main(A: T.Buffer((6, 5), "float32"), B: T.Buffer((6,), "float32")):
        for i, k in T.grid(6, 8):
            with T.block("B"):
                T.where(k < 5)
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    B[vi] = T.float32(0)
                B[vi] = B[vi] + A[vi, vk]

    a = np.arange(30, dtype="float32").reshape(6, 5)
    b = np.full(6, 7, "float32")
    run(main, a, b)
    np.testing.assert_array_equal(b, a.sum(1))


def test_tensor_expression() -> None:
    x = te.placeholder((4, 4), name="x")
    k = te.reduce_axis((0, 4), "k")
    y = te.compute((4,), lambda i: te.max(x[i, k], axis=k), name="y")
    data = np.random.default_rng(0).random((4, 4), dtype="float32")
    out = np.zeros(4, "float32")
    run(te.create_prim_func([x, y]), data, out)
    np.testing.assert_array_equal(out, data.max(1))


def test_out_of_bounds_is_an_error() -> None:
    @T.prim_func
    def main(A: T.Buffer((4,), "float32"), n: T.int32):
        A[n] = T.float32(0)

    with pytest.raises(InterpreterError, match=r"index 4 of dimension 0 of A is not in \[0, 4\)"):
        run(main, np.zeros(4, "float32"), 4)
    with pytest.raises(InterpreterError, match="index -1"):
        run(main, np.zeros(4, "float32"), -1)


def test_reading_what_nobody_wrote_is_refused() -> None:
    @T.prim_func
    def main(A: T.Buffer((4,), "float32")):
        b = T.allocate([4], "float32", "global")
        B = T.Buffer((4,), data=b)
        for i in range(3):
            B[i] = T.float32(1)
        for i in range(4):
            A[i] = B[i]

    with pytest.raises(InterpreterError, match=r"B\[3\] is read, which nobody wrote \[unwritten\]"):
        run(main, np.zeros(4, "float32"))


def test_integers_wrap() -> None:
    @T.prim_func
    def main(A: T.Buffer((2,), "int8")):
        A[0] = A[0] + A[1]

    a = np.array([127, 1], "int8")
    run(main, a)
    assert a[0] == -128


def test_symbolic_shapes_and_scalars() -> None:
    @T.prim_func
    def main(a: T.handle, scale: T.float32):
        n = T.int32()
        A = T.match_buffer(a, (n,), "float32")
        for i in range(n):
            A[i] = A[i] * scale

    a = np.ones(7, "float32")
    run(main, a, 3)
    assert (a == 3).all()


def test_wrong_arguments() -> None:
    @T.prim_func
    def main(A: T.Buffer((4,), "float32")):
        A[0] = T.float32(0)

    with pytest.raises(InterpreterError, match=r"takes 1 arguments \(A\), got 2"):
        run(main, np.zeros(4, "float32"), 1)
    with pytest.raises(InterpreterError, match="is float32, got an array of float64"):
        run(main, np.zeros(4))


def test_unknown_intrinsics_are_named() -> None:
    func = tir.PrimFunc([], tir.Evaluate(tir.call_intrin("int32", "tir.tvm_throw_last_error")))
    with pytest.raises(InterpreterError, match="tvm_throw_last_error"):
        run(func)


def test_calls_within_a_module() -> None:
    from ir import GlobalVar

    @T.prim_func
    def helper(A: T.Buffer((4,), "float32")):
        for i in range(4):
            A[i] = A[i] + T.float32(1)

    gv = GlobalVar("helper")
    buffer = tir.decl_buffer((4,), "float32", "B")
    main = tir.PrimFunc([buffer], tir.Evaluate(tir.Call("void", gv, (buffer.data,))))
    a = np.zeros(4, "float32")
    run(IRModule({gv: helper, "main": main}), a)
    assert (a == 1).all()
    with pytest.raises(InterpreterError, match="needs the module"):
        run(main, a)


@pytest.mark.parametrize("start", [-1, 5])
def test_a_vector_that_begins_or_ends_outside_is_refused(start: int) -> None:
    buffer = tir.decl_buffer((4, 8), "float32", "A")
    ramp = tir.Ramp(tir.const(start), tir.const(1), 4)
    store = tir.BufferStore(buffer, tir.Broadcast(tir.const(1.0), 4), [tir.const(1), ramp])
    with pytest.raises(InterpreterError, match="of dimension 1 of A is not in"):
        run(tir.PrimFunc([buffer], store), np.zeros((4, 8), "float32"))


def test_what_a_called_function_returns_has_the_dtype_of_the_call() -> None:
    ir.register_func("tests.three_hundred", lambda: 300, override=True)

    @T.prim_func
    def main(B: T.Buffer((2,), "int32")):
        B[0] = T.Cast("int32", T.call_packed("tests.three_hundred", dtype="int8"))
        B[1] = T.clz(T.call_packed("tests.three_hundred", dtype="int32"))

    for execute in (lambda array: run(main, array), build(main)["main"]):
        b = np.zeros(2, "int32")
        execute(b)
        assert b.tolist() == [44, 23]


@pytest.mark.meaning("lazy-connective", "vector-lanes")
@pytest.mark.parametrize(("connective", "decides"), [(tir.And, False), (tir.Or, True)])
def test_connectives_of_vectors_decide_lane_by_lane(connective: type, decides: bool) -> None:
    """Lanes that the left side decides keep its answer, and do not divide by their zeros."""
    a, o = tir.decl_buffer((6,), "int32", "A"), tir.decl_buffer((6,), "bool", "O")
    lanes = tir.Ramp(tir.const(0), tir.const(1), 6)
    loaded = tir.BufferLoad(a, [lanes])
    zero, twelve, three = (tir.Broadcast(tir.const(value), 6) for value in (0, 12, 3))
    left = tir.EQ(loaded, zero) if decides else tir.NE(loaded, zero)
    right = tir.EQ(tir.FloorDiv(twelve, loaded), three)
    func = tir.PrimFunc([a, o], tir.BufferStore(o, connective(left, right), [lanes]))
    values, found = np.array([0, 4, 1, 0, 12, 4], "int32"), np.zeros(6, "bool")
    run(func, values, found)
    np.testing.assert_array_equal(found, [v == 4 or (v == 0 and decides) for v in values])


def test_an_error_names_its_rule_wherever_it_happened() -> None:
    """What is said of the place comes after the message that ends with the rule."""

    @T.prim_func
    def main(A: T.Buffer((4,), "int32")):
        for i in range(5):
            A[i] = i

    with pytest.raises(InterpreterError) as found:
        run(main, np.zeros(4, "int32"))
    assert found.value.rule == "bounds" and "\n" in str(found.value)
    assert InterpreterError("unknown [").rule is None


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.zeros((2, 4), "float64"), r"is float32, got an array of float64 \[entry\]"),
        (np.zeros(8, "float32"), r"has 2 dimensions, got an array of shape \(8,\) \[entry\]"),
        (
            np.zeros((4, 2), "float32").T,
            r"must be contiguous; pass a copy, as np.ascontiguousarray makes one \[entry\]",
        ),
        (np.zeros((2, 5), "float32"), r"got an array of shape \(2, 5\) \[entry\]"),
    ],
)
def test_arrays_that_do_not_fit_name_the_rule(array: np.ndarray, message: str) -> None:
    func = from_source("@T.prim_func\ndef main(A: T.Buffer((2, 4), 'float32')):\n    A[0, 0] = 1.0\n")
    with pytest.raises(UndefinedError, match=message):
        run(func, array)


@pytest.mark.parametrize("program", ["main", None, np.zeros(3)])
def test_what_is_no_program_is_named(program: object) -> None:
    with pytest.raises(
        InterpreterError, match="run takes a PrimFunc or an IRModule and then its arguments, got"
    ):
        run(program, np.zeros(3))  # type: ignore[arg-type]
