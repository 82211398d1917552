"""Native code against the interpreter: dtypes, intrinsics, statements, memory, random programs."""

from __future__ import annotations

import re
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ir
from ir import IRModule, te, tir
from ir import dtype as dt
from ir.codegen.build import KernelError, build
from ir.codegen.error import CodegenError
from ir.error import IRValueError
from ir.script import from_source
from ir.script import tir as T
from ir.tir.interpreter import run
from ir.transform import PassContext


def values_of(dtype: str, count: int, seed: int = 0) -> np.ndarray:
    """Random values with the dtype's special ones among them."""
    rng = np.random.default_rng(seed)
    target = dt.to_numpy(dtype)
    if dt.is_bool(dtype):
        return rng.integers(0, 2, count).astype(target)
    if dt.is_float(dtype):
        array = rng.uniform(-4, 4, count).astype(target)
        array[:6] = [0.0, -0.0, 1.0, -1.5, 2.5, 0.5]
        return array
    low, high = dt.integer_range(dtype)
    array = rng.integers(max(low, -100), min(high, 100), count, endpoint=True).astype(target)
    array[:3] = [low, high, 0]
    return array


def compare(func: tir.PrimFunc, *args: Any, rtol: float = 0.0, atol: float = 0.0) -> None:
    """Runs natively and interpreted on copies; all arrays must agree."""
    native_args = [a.copy() if isinstance(a, np.ndarray) else a for a in args]
    oracle_args = [a.copy() if isinstance(a, np.ndarray) else a for a in args]
    name = str(func.attrs.get("global_symbol", "main"))
    build(func)[name](*native_args)
    run(func, *oracle_args)
    for got, expected in zip(native_args, oracle_args):
        if not isinstance(got, np.ndarray):
            continue
        if rtol or atol:
            np.testing.assert_allclose(got.astype(float), expected.astype(float), rtol=rtol, atol=atol)
        else:
            np.testing.assert_array_equal(got, expected)


def elementwise(
    out: str, inputs: list[str], body: str, kind: str = "serial", count: int = 32
) -> tir.PrimFunc:
    """``O[i] = body`` over inputs A, B, C."""
    params = ", ".join(f'{n}: T.Buffer(({count},), "{d}")' for n, d in zip("ABC", inputs))
    return from_source(
        f'@T.prim_func\ndef main({params}, O: T.Buffer(({count},), "{out}")):\n'
        f"    for i in T.{kind}({count}):\n        O[i] = {body}\n"
    )


NUMBERS = [
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "float16",
    "bfloat16",
    "float32",
    "float64",
]


@pytest.mark.parametrize("kind", ["serial", "vectorized"])
@pytest.mark.parametrize("dtype", NUMBERS)
def test_arithmetic(dtype: str, kind: str) -> None:
    body = "A[i] * B[i] - A[i] + T.max(A[i], B[i]) - T.min(A[i], B[i])"
    a, b = values_of(dtype, 32), values_of(dtype, 32, 1)
    out = np.zeros(32, dt.to_numpy(dtype))
    func = elementwise(dtype, [dtype, dtype], body, kind)
    if not dt.is_float(dtype):
        compare(func, a, b, out)
        return
    build(func)["main"](a, b, out)
    assert np.all(np.abs(out - exact_arithmetic(a, b)) <= rounding_of_arithmetic(a, b))


def exact_arithmetic(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """What :func:`test_arithmetic` computes, with no rounding that counts."""
    a, b = a.astype("longdouble"), b.astype("longdouble")
    return a * b - a + np.maximum(a, b) - np.minimum(a, b)


def rounding_of_arithmetic(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The most that rounding may change there: half a unit in the last place of the result of each operation.

    How many operations are rounded is the processor's choice: a product may be fused with the sum behind it, and half floats
    may be carried in more bits until they are stored.
    """
    unit = ml_dtypes.finfo(a.dtype).eps / 2
    a, b = a.astype("longdouble"), b.astype("longdouble")
    product = np.abs(a * b)
    difference = np.abs(a * b - a) + unit * product
    larger = np.abs(a * b - a + np.maximum(a, b)) + unit * (product + difference)
    result = np.abs(a * b - a + np.maximum(a, b) - np.minimum(a, b)) + unit * (product + difference + larger)
    return unit * (product + difference + larger + result)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_the_bound_of_test_arithmetic_separates(dtype: str) -> None:
    """It holds for every way of rounding, and for no sum that lacks a term."""
    a, b = values_of(dtype, 32), values_of(dtype, 32, 1)
    bound = rounding_of_arithmetic(a, b)
    one_by_one = ((a * b - a).astype(a.dtype) + np.maximum(a, b)).astype(a.dtype) - np.minimum(a, b)
    wide = a.astype("longdouble"), b.astype("longdouble")
    fused = (wide[0] * wide[1] - wide[0]).astype(a.dtype) + np.maximum(a, b) - np.minimum(a, b)
    carried = exact_arithmetic(a, b).astype(a.dtype)
    for rounded in (one_by_one, fused, carried):
        assert np.all(np.abs(rounded - exact_arithmetic(a, b)) <= bound)
    changes = np.abs(np.stack([wide[0] * wide[1], wide[0]]))
    assert np.all(changes.max(1) > 10 * bound.max())


@pytest.mark.parametrize("kind", ["serial", "vectorized"])
@pytest.mark.parametrize(
    "op", ["A[i] // B[i]", "A[i] % B[i]", "T.truncdiv(A[i], B[i])", "T.truncmod(A[i], B[i])"]
)
@pytest.mark.parametrize("dtype", ["int32", "int64", "uint8"])
def test_division(dtype: str, op: str, kind: str) -> None:
    a = values_of(dtype, 32)
    a[0] += 1  # the smallest value divided by -1 overflows
    b = values_of(dtype, 32, 1)
    b[b == 0] = 3
    compare(elementwise(dtype, [dtype, dtype], op, kind), a, b, np.zeros(32, dtype))


@pytest.mark.parametrize("divisor", [1, 3, 4, 7, 16])
def test_division_by_constants(divisor: int) -> None:
    func = elementwise("int32", ["int32"], f"A[i] // {divisor} * 1000 + A[i] % {divisor}")
    compare(func, np.arange(-16, 16, dtype="int32"), np.zeros(32, "int32"))


@pytest.mark.parametrize("kind", ["serial", "vectorized"])
@pytest.mark.parametrize("source", [*NUMBERS, "bool"])
def test_conversions(source: str, kind: str) -> None:
    a = values_of(source, 32)
    for target in [*NUMBERS, "bool"]:
        data = a
        if dt.is_float(source) and not dt.is_float(target):
            data = np.abs(a)  # a negative float has no unsigned value
        elif (
            dt.is_float(target) and dt.bits(target) == 16 and dt.bits(source) > 16 and not dt.is_float(source)
        ):
            data = np.clip(a, 0, 1000).astype(a.dtype)
        func = elementwise(target, [source], f'T.Cast("{target}", A[i])', kind)
        compare(func, data, np.zeros(32, dt.to_numpy(target)))


@pytest.mark.parametrize("op", ["<", "<=", ">", ">=", "==", "!="])
@pytest.mark.parametrize("dtype", ["int32", "uint8", "float32", "bfloat16"])
def test_comparisons(dtype: str, op: str) -> None:
    func = elementwise("bool", [dtype, dtype], f"A[i] {op} B[i]", "vectorized")
    a, b = values_of(dtype, 32), values_of(dtype, 32, 1)
    b[5:10] = a[5:10]
    compare(func, a, b, np.zeros(32, bool))


def test_logic_and_selection() -> None:
    body = "T.Select((A[i] > T.float32(0) and B[i] > T.float32(0)) or not (A[i] < B[i]), A[i], B[i])"
    for kind in ("serial", "vectorized"):
        compare(elementwise("float32", ["float32"] * 2, body, kind), values_of("float32", 32), values_of("float32", 32, 1),
                np.zeros(32, "float32"))  # fmt: skip


@pytest.mark.parametrize("kind", ["serial", "vectorized"])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize(
    "name",
    "exp exp2 exp10 tanh sigmoid erf erfc sin cos tan atan sinh cosh floor ceil trunc round nearbyint fabs asinh".split(),
)
def test_float_functions(name: str, dtype: str, kind: str) -> None:
    func = elementwise(dtype, [dtype], f"T.{name}(A[i])" if name != "fabs" else "T.abs(A[i])", kind)
    unit = {"float16": 2e-3, "bfloat16": 2e-2, "float32": 1e-6, "float64": 1e-14}[dtype]
    compare(func, values_of(dtype, 32), np.zeros(32, dt.to_numpy(dtype)), rtol=unit, atol=unit)


@pytest.mark.parametrize("name", ["log", "log2", "log10", "log1p", "sqrt", "rsqrt"])
def test_functions_of_positive_numbers(name: str) -> None:
    a = np.linspace(0.01, 50, 32, dtype="float32")
    compare(
        elementwise("float32", ["float32"], f"T.{name}(A[i])", "vectorized"),
        a,
        np.zeros_like(a),
        rtol=1e-6,
        atol=1e-7,
    )


@pytest.mark.parametrize("name", ["pow", "fmod", "atan2", "hypot", "copysign"])
def test_binary_functions(name: str) -> None:
    a, b = np.abs(values_of("float32", 32)) + 0.5, values_of("float32", 32, 1)
    b[b == 0] = 1
    call = f"T.{name}(A[i], B[i])"
    for kind in ("serial", "vectorized"):
        compare(
            elementwise("float32", ["float32"] * 2, call, kind), a, b, np.zeros_like(a), rtol=1e-5, atol=1e-6
        )


@pytest.mark.parametrize("dtype", ["int32", "uint8", "int64"])
def test_bit_operations(dtype: str) -> None:
    body = "((A[i] & B[i]) | (A[i] ^ B[i])) + (A[i] << T.Cast('{0}', 2)) - (A[i] >> T.Cast('{0}', 1)) + ~A[i] + T.popcount(A[i])"
    compare(elementwise(dtype, [dtype, dtype], body.format(dtype), "vectorized"), values_of(dtype, 32), values_of(dtype, 32, 1),
            np.zeros(32, dtype))  # fmt: skip


def test_other_intrinsics() -> None:
    compare(
        elementwise("int32", ["int32"], "T.clz(A[i])"),
        np.abs(values_of("int32", 32)[1:].repeat(2)[:32]),
        np.zeros(32, "int32"),
    )
    bits = elementwise("int32", ["float32"], 'T.reinterpret("int32", A[i])', "vectorized")
    compare(bits, values_of("float32", 32), np.zeros(32, "int32"))
    compare(elementwise("int32", ["int32"], "T.q_multiply_shift(A[i], 1342177280, 31, -2)", "vectorized"),
            values_of("int32", 32), np.zeros(32, "int32"))  # fmt: skip
    special = values_of("float32", 32)
    special[8:11] = [np.nan, np.inf, -np.inf]
    for name in ("isnan", "isinf", "isfinite"):
        compare(
            elementwise("bool", ["float32"], f"T.{name}(A[i])", "vectorized"), special, np.zeros(32, bool)
        )


def test_guarded_loads_stay_in_bounds() -> None:
    body = "T.if_then_else(i >= 3 and i < 20, A[i - 3], T.float32(7))"
    for kind in ("serial", "vectorized"):
        compare(
            elementwise("float32", ["float32"], body, kind), values_of("float32", 32), np.zeros(32, "float32")
        )


def test_nan_goes_through_relu() -> None:
    func = elementwise("float32", ["float32"], "T.max(A[i], T.float32(0))", "vectorized")
    a = np.full(32, np.nan, "float32")
    out = np.zeros(32, "float32")
    build(func)["main"](a, out)
    assert np.isnan(out).all()


# -- statements ----------------------------------------------------------------------


def test_while_let_and_assert() -> None:
    @T.prim_func
    def main(A: T.Buffer((8,), "int32"), O: T.Buffer((8,), "int32")):
        t = T.allocate([1], "int32", "local")
        t_1 = T.Buffer((1,), "int32", data=t, scope="local")
        for i in range(8):
            t_1[0] = A[i]
            O[i] = 0
            while t_1[0] > 0:
                t_1[0] = t_1[0] // 2
                O[i] = O[i] + 1
            x: T.int32 = O[i] * 2
            O[i] = x + x

    compare(main, np.array([0, 1, 2, 3, 100, 1000, 7, 8], "int32"), np.zeros(8, "int32"))


@pytest.mark.parametrize(("start", "stop"), [(-2, 2), (-3, 1), (-3, 5), (-5, -2), (-1, 0), (0, 4)])
def test_loops_may_start_below_zero(start: int, stop: int) -> None:
    i = tir.Var("i", "int32")
    B = tir.decl_buffer((16,), "int32", "B")
    handle = tir.Var("b", "handle")
    loop = tir.For(i, start, stop - start, tir.ForKind.SERIAL, tir.BufferStore(B, i, [i + 8]))
    out = np.full(16, 99, "int32")
    build(tir.PrimFunc([handle], loop, buffer_map={handle: B}))["main"](out)
    expected = np.full(16, 99, "int32")
    expected[start + 8 : stop + 8] = np.arange(start, stop)
    np.testing.assert_array_equal(out, expected)


def test_a_loop_that_a_late_pass_made_empty_does_not_run() -> None:
    @T.prim_func
    def main(A: T.Buffer((4, 100), "int32")):
        for i, j in T.grid(4, 100):
            A[i, j] = 1

    @tir.transform.prim_func_pass(opt_level=0, name="empty")
    def empty(func: tir.PrimFunc, mod: IRModule, ctx: PassContext) -> tir.PrimFunc:
        return func.replace(body=func.body.replace(extent=0))

    with PassContext(config={"tir.add_lower_pass": [(3, empty)]}):
        native = build(main)
    out = np.zeros((4, 100), "int32")
    native["main"](out)
    assert not out.any()


def test_failed_assertion_is_an_error() -> None:
    @T.prim_func
    def main(A: T.Buffer((8,), "int32"), n: T.int32):
        assert n < 5, "n must be small"
        A[0] = n

    native = build(main)
    out = np.zeros(8, "int32")
    native["main"](out, 3)
    assert out[0] == 3
    with pytest.raises(KernelError, match="n must be small"):
        native["main"](out, 7)


def test_an_assertion_may_fail_behind_memory_of_the_runtime() -> None:
    @T.prim_func
    def main(A: T.Buffer((8,), "int32"), n: T.int32):
        if n > 0:
            scratch = T.allocate([n], "int32", "global")
            S = T.Buffer((n,), "int32", data=scratch)
            S[0] = n
            A[0] = S[0]
        assert n < 5, "n must be small"

    native = build(main)
    out = np.zeros(8, "int32")
    for n in (7, -1, 7, 3):
        if n < 5:
            native["main"](out, n)
        else:
            with pytest.raises(KernelError, match="n must be small"):
                native["main"](out, n)
    assert out[0] == 3


def test_assertion_in_a_parallel_loop() -> None:
    @T.prim_func
    def main(A: T.Buffer((64,), "int32")):
        for i in T.parallel(64):
            assert A[i] >= 0, "negative"
            A[i] = A[i] + 1

    native = build(main)
    native["main"](np.zeros(64, "int32"))
    bad = np.zeros(64, "int32")
    bad[40] = -1
    with pytest.raises(KernelError, match="negative"):
        native["main"](bad)


def test_returned_value() -> None:
    @T.prim_func
    def main(A: T.Buffer((8,), "float32")) -> T.float32:
        if A[0] > T.float32(0):
            T.ret(A[0] * T.float32(2))
        T.ret(T.float32(-1))

    native = build(main)
    assert native["main"](np.full(8, 3, "float32")) == 6
    assert native["main"](np.zeros(8, "float32")) == -1


def test_parallel_loop_with_everything_captured() -> None:
    @T.prim_func
    def main(a: T.handle, o: T.handle, n: T.int32, scale: T.float32):
        A = T.match_buffer(a, (n, 64), "float32")
        O = T.match_buffer(o, (n, 64), "float32")
        big = T.allocate([n * 64], "float32", "global")
        B = T.Buffer((n * 64,), data=big)
        for i in T.parallel(n):
            tmp = T.allocate([40000], "float32", "global")
            C = T.Buffer((40000,), data=tmp)
            for j in range(64):
                C[j * 600] = A[i, j] * scale
            for j in range(64):
                B[i * 64 + j] = C[j * 600] + T.Cast("float32", i)
        for i in T.parallel(2, n):
            for j in T.vectorized(64):
                O[i, j] = B[i * 64 + j]

    for n in (3, 8, 33):
        a = values_of("float32", n * 64).reshape(n, 64)
        compare(main, a, np.zeros((n, 64), "float32"), n, 2.0, atol=1e-5)


def test_large_and_small_buffers() -> None:
    @T.prim_func
    def main(A: T.Buffer((20000,), "float32"), O: T.Buffer((20000,), "float32")):
        first = T.allocate([20000], "float32", "global")
        second = T.allocate([20000], "float32", "global")
        F = T.Buffer((20000,), data=first)
        S = T.Buffer((20000,), data=second)
        for i in range(20000):
            F[i] = A[i] + T.float32(1)
        for i in range(20000):
            S[i] = F[19999 - i] * T.float32(2)
        for i in range(20000):
            O[i] = S[i] + F[i]

    native = build(main)
    a = values_of("float32", 20000)
    o = np.zeros_like(a)
    native["main"](a, o)
    np.testing.assert_allclose(o, (a[::-1] + 1) * 2 + a + 1, atol=1e-5)


def test_functions_call_each_other() -> None:
    @T.prim_func
    def helper(a: T.handle, n: T.int32):
        A = T.match_buffer(a, (16,), "float32")
        assert n >= 0, "n is negative"
        for i in range(16):
            A[i] = A[i] + T.Cast("float32", n)

    gv = ir.GlobalVar("helper")
    buffer = tir.decl_buffer((16,), "float32", "B")
    n = tir.Var("n", "int32")
    body = tir.Evaluate(tir.Call("void", gv, (buffer.data, n)))
    main = tir.PrimFunc([buffer, n], tir.SeqStmt([body, body]))
    module = IRModule({gv: helper.with_attr("global_symbol", "helper"), "main": main})
    native = build(module)
    data = np.zeros(16, "float32")
    native["main"](data, 3)
    assert (data == 6).all()
    with pytest.raises(KernelError, match="n is negative"):
        native["main"](data, -1)


def test_buffers_may_overlap_when_the_function_says_so() -> None:
    @T.prim_func
    def main(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
        T.func_attr({"tir.noalias": False})
        for i in T.unroll(63):
            B[i + 1] = A[i] + T.float32(1)

    data = np.zeros(64, "float32")
    build(main)["main"](data, data)
    np.testing.assert_array_equal(data, np.arange(64))


def test_registered_functions_are_called() -> None:
    seen: list[Any] = []

    def observer(array: np.ndarray, number: int, ratio: float, text: str) -> int:
        seen.append((array.copy(), number, ratio, text))
        array[1] = 9
        return 5

    ir.register_func("test.observer", observer, override=True)

    @T.prim_func
    def main(A: T.Buffer((4,), "float32"), O: T.Buffer((1,), "int32")):
        O[0] = T.call_packed("test.observer", T.address_of(A[0]), 3, T.float32(1.5), "hello")

    native = build(main)
    a, o = np.arange(4, dtype="float32"), np.zeros(1, "int32")
    native["main"](a, o)
    np.testing.assert_array_equal(seen[0][0], [0, 1, 2, 3])
    assert seen[0][1:] == (3, 1.5, "hello")
    assert a[1] == 9 and o[0] == 5

    def failing(*args: Any) -> None:
        raise ValueError("observer is unhappy")

    ir.register_func("test.observer", failing, override=True)
    with pytest.raises(KernelError, match="observer is unhappy") as caught:
        native["main"](a, o)
    assert isinstance(caught.value.__cause__, ValueError)
    ir.remove_global_func("test.observer")


def test_extern_functions() -> None:
    func = elementwise("float32", ["float32"], 'T.call_pure_extern("float32", "cosf", A[i])', "vectorized")
    a = values_of("float32", 32)
    out = np.zeros_like(a)
    build(func)["main"](a, out)
    np.testing.assert_allclose(out, np.cos(a), rtol=1e-6)


def test_a_missing_extern_function_is_an_error() -> None:
    func = elementwise("float32", ["float32"], 'T.call_pure_extern("float32", "no_such_function", A[i])')
    with pytest.raises(CodegenError, match="no_such_function"):
        build(func)["main"](np.zeros(32, "float32"), np.zeros(32, "float32"))


def test_what_has_no_native_form_is_named() -> None:
    with pytest.raises(
        IRValueError, match="main: the intrinsic tir.tvm_warp_shuffle has no form for target kind llvm"
    ):
        body = tir.Evaluate(tir.call_intrin("int32", "tir.tvm_warp_shuffle", 0, 1, 2, 3, 4))
        build(tir.PrimFunc([], body))

    @T.prim_func
    def bound(A: T.Buffer((16,), "float32")):
        for i in T.thread_binding(16, thread="threadIdx.x"):
            A[i] = T.float32(0)

    with pytest.raises(CodegenError, match="bound to threadIdx.x.* build for the target cuda"):
        build(bound)


# -- whole kernels ---------------------------------------------------------------------


def test_softmax() -> None:
    a = te.placeholder((8, 100), name="A")
    k1 = te.reduce_axis((0, 100), "k1")
    k2 = te.reduce_axis((0, 100), "k2")
    top = te.compute((8,), lambda i: te.max(a[i, k1], axis=k1), "top")
    e = te.compute((8, 100), lambda i, j: te.exp(a[i, j] - top[i]), "e")
    total = te.compute((8,), lambda i: te.sum(e[i, k2], axis=k2), "total")
    out = te.compute((8, 100), lambda i, j: e[i, j] / total[i], "out")
    x = np.random.default_rng(0).standard_normal((8, 100)).astype("float32")
    y = np.zeros_like(x)
    build(te.create_prim_func([a, out]))["main"](x, y)
    exact = np.exp(x - x.max(1, keepdims=True))
    np.testing.assert_allclose(y, exact / exact.sum(1, keepdims=True), rtol=1e-5)


def test_strided_convolution() -> None:
    n, c, h, o = 1, 3, 9, 4
    a = te.placeholder((n, h, h, c), name="A")
    w = te.placeholder((3, 3, c, o), name="W")
    padded = te.compute(
        (n, h + 2, h + 2, c),
        lambda b, y, x, i: tir.if_then_else(
            tir.all(y >= 1, y < h + 1, x >= 1, x < h + 1), a[b, y - 1, x - 1, i], tir.const(0.0, "float32")
        ),
        "padded",
    )
    r, s, i = te.reduce_axis((0, 3), "r"), te.reduce_axis((0, 3), "s"), te.reduce_axis((0, c), "i")
    size = (h + 2 - 3) // 2 + 1
    conv = te.compute(
        (n, size, size, o),
        lambda b, y, x, f: te.sum(padded[b, y * 2 + r, x * 2 + s, i] * w[r, s, i, f], axis=[r, s, i]),
        "conv",
    )
    func = te.create_prim_func([a, w, conv])
    rng = np.random.default_rng(0)
    x = rng.integers(-4, 5, (n, h, h, c)).astype("float32")
    k = rng.integers(-4, 5, (3, 3, c, o)).astype("float32")
    compare(func, x, k, np.zeros((n, size, size, o), "float32"))


@pytest.mark.parametrize("values", [1, 2])
def test_sums_along_memory_are_vectors(values: int) -> None:
    """LLVM may reorder a reduction, be it of one value or of several that are computed before all are stored."""
    a = te.placeholder((8, 512), name="A")
    k = te.reduce_axis((0, 512), name="k")
    if values == 1:
        sums: Any = te.compute((8,), lambda i: te.sum(a[i, k], axis=k), name="S")
    else:
        both = te.comm_reducer(
            lambda x, y: (x[0] + y[0], x[1] + y[1]), lambda *kinds: [tir.const(0, kind) for kind in kinds]
        )
        sums = te.compute((8,), lambda i: both((a[i, k], a[i, k] * a[i, k]), axis=k), name="S")
    func = te.create_prim_func([a, *(sums if values == 2 else [sums])])
    assembly = build(func, "llvm -mtriple=x86_64-unknown-linux-gnu -mcpu=skylake-avx512").assembly
    assert len(re.findall(r"v(?:add|fmadd\d+)ps\s+.*%[yz]mm", assembly)) >= values
    module = build(func)
    data = np.random.default_rng(0).integers(-8, 9, (8, 512)).astype("float32")
    results = [np.empty(8, "float32") for _ in range(values)]
    module["main"](data, *results)
    for result, wanted in zip(results, (data.sum(1), (data * data).sum(1))):
        np.testing.assert_array_equal(result, wanted)


def test_accumulators_stay_in_registers() -> None:
    """A local tile with unrolled loops: no stack access inside the kernel, one fused multiply-add per element."""

    @T.prim_func
    def tile(
        A: T.Buffer((256, 8), "float32"), B: T.Buffer((256, 16), "float32"), C: T.Buffer((8, 16), "float32")
    ):
        acc = T.allocate([128], "float32", "local")
        acc_1 = T.Buffer((128,), data=acc, scope="local")
        for i in range(8):
            for j in T.vectorized(16):
                acc_1[i * 16 + j] = T.float32(0)
        for k in range(256):
            for i in range(8):
                for j in T.vectorized(16):
                    acc_1[i * 16 + j] = acc_1[i * 16 + j] + A[k, i] * B[k, j]
        for i in range(8):
            for j in T.vectorized(16):
                C[i, j] = acc_1[i * 16 + j]

    native = build(tile, "llvm -mtriple=x86_64-unknown-linux-gnu -mcpu=skylake-avx512")
    assembly = native.assembly
    assert assembly.count("vfmadd") >= 8
    assert "(%rsp)" not in assembly
    assert "zmm" in assembly


# -- random programs -------------------------------------------------------------------

_INDEX = st.sampled_from(
    [
        "i",
        "j",
        "i * 8 + j",
        "(i * 8 + j) // 3",
        "(i * 8 + j) % 5",
        "31 - i",
        "j * 4",
        "i + j",
        "T.min(i, j)",
        "(i + 2 * j) % 8",
    ]
)
_LEAF = st.one_of(
    _INDEX.map(lambda x: f"A[{x}]"),
    _INDEX.map(lambda x: f"B[{x}]"),
    st.sampled_from(["2", "i", "j", "i * j", "7"]),
)
_VALUE = st.recursive(
    _LEAF,
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from(["+", "-", "*"]), inner).map(lambda p: f"({p[0]} {p[1]} {p[2]})"),
        st.tuples(inner, inner).map(lambda p: f"T.max({p[0]}, {p[1]})"),
        st.tuples(inner, st.integers(1, 7)).map(lambda p: f"({p[0]} // {p[1]})"),
        st.tuples(_INDEX, inner, inner).map(lambda p: f"T.if_then_else({p[0]} < 9, {p[1]}, {p[2]})"),
        st.tuples(inner, inner, inner).map(lambda p: f"T.Select({p[0]} > {p[1]}, {p[1]}, {p[2]})"),
    ),
    max_leaves=6,
)
_KIND = st.sampled_from(["serial", "unroll", "vectorized"])
_GUARD = st.sampled_from(["", "i * 8 + j < 27", "j < 5", "A[i] > 0", "i > 1 and j > 2"])


@settings(max_examples=60, deadline=None)
@given(_KIND, _KIND, _VALUE, _VALUE, _GUARD, st.integers(2, 4), st.integers(3, 8))
def test_random_programs(outer: str, inner: str, first: str, second: str, guard: str, n: int, m: int) -> None:
    if outer == "vectorized" and inner == "vectorized":
        inner = "serial"
    lines = [
        "@T.prim_func",
        'def main(A: T.Buffer((64,), "int32"), B: T.Buffer((64,), "int32"), O: T.Buffer((4, 8), "int32"), P: T.Buffer((4, 8), "int32")):',
        f"    for i in T.{outer}({n}):",
        f"        for j in T.{inner}({m}):",
    ]
    if guard:
        lines.append(f"            if {guard}:")
    pad = " " * (16 if guard else 12)
    lines += [f"{pad}O[i, j] = {first}", f"{pad}P[i, j] = O[i, j] + {second}"]
    func = from_source("\n".join(lines))
    rng = np.random.default_rng(len(first))
    a, b = rng.integers(-9, 10, (2, 64)).astype("int32")
    compare(func, a, b, np.zeros((4, 8), "int32"), np.zeros((4, 8), "int32"))
