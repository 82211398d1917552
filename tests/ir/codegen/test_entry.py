"""What a kernel is called with is compared with what it declares: symbols by identity, extents, strides, offsets, numbers."""

from __future__ import annotations

import numpy as np
import pytest

from ir import te, tir
from ir.codegen.build import KernelError, NativeModule, build
from ir.codegen.error import CodegenError
from ir.codegen.llvm.signature import bind_parameters
from ir.script import from_source
from ir.script import tir as T
from ir.transform import PassContext


def kernel(source: str) -> NativeModule:
    return build(from_source(f"@T.prim_func\n{source}"))


COPY_STRIDED = """def main(a: T.handle, b: T.handle):
        s0, s1, n = T.int64(), T.int64(), T.int64()
        A = T.match_buffer(a, (n, 4), "float32", strides=[s0, s1])
        B = T.match_buffer(b, (n, 4), "float32")
        for i, j in T.grid(n, 4):
            B[i, j] = A[i, j]"""


def test_strides_are_those_of_the_array() -> None:
    native = kernel(COPY_STRIDED)
    base = np.arange(64, dtype="float32").reshape(8, 8)
    for a in (
        base[:4, :4],
        base.T[1:6, 2:6],
        base[::2, ::2],
        base[::-1, :4],
        np.broadcast_to(base[0, :4], (5, 4)),
    ):
        b = np.zeros(a.shape, "float32")
        native["main"](a, b)
        np.testing.assert_array_equal(b, a)


def test_declared_strides_are_compared() -> None:
    native = kernel(
        """def main(a: T.handle, b: T.handle):
        s = T.int32()
        A = T.match_buffer(a, (4, 4), "float32", strides=[s, 1])
        B = T.match_buffer(b, (4, 4), "float32", strides=[s * 2, 2])
        for i, j in T.grid(4, 4):
            B[i, j] = A[i, j]"""
    )
    a, memory = np.arange(32, dtype="float32").reshape(4, 8), np.zeros((4, 16), "float32")
    native["main"](a[:, :4], memory[:, :8:2])
    np.testing.assert_array_equal(memory[:, :8:2], a[:, :4])
    assert not memory[:, 1::2].any()
    with pytest.raises(
        KernelError, match=r"argument A must have strides \(s=16, 1\) in elements, got \(16, 2\)"
    ):
        native["main"](memory[:, :8:2], memory[:, :8:2])
    with pytest.raises(
        KernelError, match=r"argument B must have strides \(s \* 2=16, 2\) in elements, got \(4, 1\)"
    ):
        native["main"](a[:, :4], np.zeros((4, 4), "float32"))
    rows = np.zeros((4, 9), "uint8")
    with pytest.raises(KernelError, match="argument A lies at an address|argument A has strides of"):
        native["main"](np.ndarray((4, 4), "float32", rows, strides=(9, 1)), memory[:, :8:2])


def test_strides_of_an_axis_with_one_element_do_not_matter() -> None:
    native = kernel(
        """def main(A: T.Buffer((1, 4), "float32", strides=[4, 1]), B: T.Buffer((4,), "float32")):
        for j in range(4):
            B[j] = A[0, j]"""
    )
    a, b = np.arange(32, dtype="float32").reshape(4, 8)[1:2, :4], np.zeros(4, "float32")
    native["main"](a, b)
    np.testing.assert_array_equal(b, a[0])


def test_computed_extents_are_compared() -> None:
    native = kernel(
        """def main(a: T.handle, b: T.handle):
        n = T.int64()
        A = T.match_buffer(a, (n * 2, n // 2 + 1), "int32")
        B = T.match_buffer(b, (n,), "int32")
        for i in range(n):
            B[i] = A[i * 2 + 1, 0]"""
    )
    a, b = np.arange(18, dtype="int32").reshape(6, 3)[:, :2].copy(), np.zeros(3, "int32")
    native["main"](a, b)
    np.testing.assert_array_equal(b, a[1::2, 0])
    with pytest.raises(
        KernelError, match=r"argument A must have shape \(n \* 2=6, \(n // 2\) \+ 1=2\), got \(3, 2\)"
    ):
        native["main"](a[:3].copy(), b)


@pytest.mark.parametrize(
    ("extent", "numbers"),
    [
        ("T.Select(n < 3, n * 2, n - 1)", {2: 4, 5: 4}),
        ("T.max(T.min(n, 4), 3)", {1: 3, 9: 4}),
        ("T.Select(T.And(n > 1, T.Not(n == 3)), 1, 2)", {2: 1, 3: 2}),
        ("T.Div(n - 7, 2) + 5", {2: 3, 8: 5}),
        ("T.truncmod(n - 7, 2) + 2", {2: 1, 8: 3}),
    ],
)
def test_extents_may_be_chosen_and_divided_as_kernels_do(extent: str, numbers: dict[int, int]) -> None:
    """Choices and comparisons are arithmetic of extents too, and ``Div`` rounds towards zero."""
    native = kernel(
        f"""def main(a: T.handle, b: T.handle):
        n = T.int32()
        B = T.match_buffer(b, (n,), "int32")
        A = T.match_buffer(a, ({extent},), "int32")
        A[0] = n"""
    )
    for n, size in numbers.items():
        a = np.zeros(size, "int32")
        native["main"](a, np.zeros(n, "int32"))
        assert a[0] == n
        with pytest.raises(KernelError, match=f"={size}"):
            native["main"](np.zeros(size + 1, "int32"), np.zeros(n, "int32"))


def test_an_extent_that_divides_by_zero_is_refused() -> None:
    native = kernel(
        """def main(a: T.handle, b: T.handle):
        n = T.int32()
        B = T.match_buffer(b, (n,), "int32")
        A = T.match_buffer(a, (6 // n,), "int32")
        A[0] = n"""
    )
    with pytest.raises(KernelError, match="argument A is declared with 6 // n, which divides by zero"):
        native["main"](np.zeros(3, "int32"), np.zeros(0, "int32"))


def test_an_extent_that_nothing_gives_is_an_error() -> None:
    a, n = tir.Var("a", "handle"), tir.Var("n", "int32")
    buffer = tir.decl_buffer((n * 2,), "int32", "A")
    func = tir.PrimFunc([a], tir.BufferStore(buffer, tir.const(1), [0]), buffer_map={a: buffer})
    with pytest.raises(CodegenError, match="nothing gives n") as raised:
        bind_parameters(func, "main")
    assert "in the declaration of buffer A" in raised.value.__notes__


def test_symbols_are_known_by_identity() -> None:
    """Two variables of one name are two extents."""
    first, second = tir.Var("n", "int64"), tir.Var("n", "int64")
    a, b = tir.Var("a", "handle"), tir.Var("b", "handle")
    A, B = tir.decl_buffer((first,), "int32", "A"), tir.decl_buffer((second,), "int32", "A")
    i, j = tir.Var("i", "int64"), tir.Var("j", "int64")
    body = tir.SeqStmt(
        [
            tir.For(
                i, tir.const(0, "int64"), first, tir.ForKind.SERIAL, tir.BufferStore(A, tir.const(1), [i])
            ),
            tir.For(
                j, tir.const(0, "int64"), second, tir.ForKind.SERIAL, tir.BufferStore(B, tir.const(2), [j])
            ),
        ]
    )
    native = build(tir.PrimFunc([a, b], body, buffer_map={a: A, b: B}))
    x, y = np.zeros(3, "int32"), np.zeros(5, "int32")
    native["main"](x, y)
    np.testing.assert_array_equal(x, [1] * 3)
    np.testing.assert_array_equal(y, [2] * 5)


def test_a_parameter_that_is_an_extent_is_compared() -> None:
    """Wherever the parameter stands."""
    native = kernel(
        """def main(a: T.handle, n: T.int32):
        A = T.match_buffer(a, (n,), "int32")
        for i in range(n):
            A[i] = i"""
    )
    a = np.zeros(4, "int32")
    native["main"](a, 4)
    np.testing.assert_array_equal(a, range(4))
    with pytest.raises(KernelError, match=r"argument A must have shape \(n=5,\), got \(4,\)"):
        native["main"](a, 5)


def test_an_offset_is_that_of_the_array() -> None:
    native = kernel(
        """def main(a: T.handle):
        o = T.int32()
        A = T.match_buffer(a, (4,), "int32", elem_offset=o)
        A[0] = A[0] + 7"""
    )
    memory = np.zeros(8, "int32")
    native["main"](memory[4:])
    np.testing.assert_array_equal(memory, [0] * 4 + [7] + [0] * 3)
    fixed = kernel(
        """def main(a: T.handle):
        A = T.match_buffer(a, (4,), "int32", elem_offset=2)
        A[0] = 7"""
    )
    with pytest.raises(KernelError, match="argument A must have offset 2, but an array begins"):
        fixed["main"](memory[:4])


@pytest.mark.parametrize(
    ("dtype", "value", "message"),
    [("int32", 2**31, "argument n must be int32, got 2147483648"), ("int8", 200, "must be int8"), ("uint8", -1, "must be uint8"),
     ("int64", 2.5, "must be int64, got 2.5"), ("float32", 1e300, "must be float32, got 1e\\+300")],
)  # fmt: skip
def test_numbers_fit_their_dtype(dtype: str, value: float, message: str) -> None:
    native = kernel(
        f"""def main(n: T.{dtype}, A: T.Buffer((1,), "int64")):
        A[0] = T.Cast("int64", n)"""
    )
    a = np.zeros(1, "int64")
    native["main"](np.int64(7), a)
    assert a[0] == 7
    with pytest.raises(KernelError, match=message):
        native["main"](value, a)


def test_an_address_between_elements_is_refused() -> None:
    native = kernel(
        """def main(A: T.Buffer((4,), "int32")):
        A[0] = 1"""
    )
    memory = np.zeros(20, "uint8")
    with pytest.raises(KernelError, match="argument A lies at an address that is no multiple"):
        native["main"](np.ndarray((4,), "int32", memory, offset=1 if memory.ctypes.data % 4 == 0 else 0))


@T.prim_func
def shifted(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
    for i in range(63):
        B[i + 1] = A[i] + T.float32(1)


@T.prim_func
def read_again(A: T.Buffer((64,), "float32"), B: T.Buffer((1,), "float32"), C: T.Buffer((64,), "float32")):
    for i in range(64):
        A[i] = B[0] + T.float32(1)
        C[i] = B[0] * T.float32(2)


def test_parameters_may_be_the_same_memory() -> None:
    data = np.zeros(64, "float32")
    build(shifted)["shifted"](data, data)
    np.testing.assert_array_equal(data, np.arange(64))
    a, c = np.zeros(64, "float32"), np.zeros(64, "float32")
    build(read_again)["read_again"](a, a[3:4], c)
    np.testing.assert_array_equal(a, [1] * 4 + [2] * 60)
    np.testing.assert_array_equal(c, [0] * 3 + [2] * 61)


def test_a_parallel_loop_knows_no_more_of_its_memory_than_the_function() -> None:
    func = from_source(
        """@T.prim_func
def main(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
        for i in T.parallel(2):
            for j in range(31):
                B[i * 32 + j + 1] = A[i * 32 + j] + T.float32(1)"""
    )
    data = np.zeros(64, "float32")
    with PassContext(config={"tir.LowerParallel": {"least_operations": 0}}):
        build(func)["main"](data, data)
    np.testing.assert_array_equal(data, [*range(32)] * 2)


def test_that_memory_does_not_overlap_is_said_only_where_the_function_does() -> None:
    def parameters(native: NativeModule) -> str:
        return next(line for line in native.llvm_ir.splitlines() if line.startswith("define i32"))

    assert "noalias" not in parameters(build(shifted))
    distinct = shifted.with_attr("tir.noalias", True)
    assert parameters(build(distinct)).count("noalias") == 2
    with PassContext(config={"tir.noalias": False}):
        assert "noalias" not in parameters(build(distinct))


@pytest.mark.meaning("noalias")
def test_overlapping_arguments_are_refused_where_one_is_written() -> None:
    a, b = te.placeholder((6,), "float32", name="A"), te.placeholder((6,), "float32", name="B")
    func = te.create_prim_func([a, b, te.compute((6,), lambda i: a[i] + b[i], "C")])
    native, memory = build(func)["main"], np.arange(16, dtype="float32")
    x, y = memory[:6], memory[6:12]
    native(x, x, y)  # what is only read may be the same
    np.testing.assert_array_equal(y, 2 * x)
    for arguments, message in (
        ((x, y, y), "arguments B and C overlap and C is written"),
        ((x, y, memory[5:11]), "arguments A and C overlap"),
    ):
        with pytest.raises(KernelError, match=message):
            native(*arguments)
    with PassContext(config={"tir.noalias": False}):
        build(func)["main"](x, y, x)


@pytest.mark.meaning("noalias")
def test_interleaved_arguments_are_apart() -> None:
    @T.prim_func
    def main(a: T.handle, b: T.handle):
        T.func_attr({"tir.noalias": True})
        s, t = T.int32(), T.int32()
        A = T.match_buffer(a, (4,), strides=[s])
        B = T.match_buffer(b, (4,), strides=[t])
        for i in range(4):
            B[i] = A[i] + T.float32(1)

    memory = np.zeros(8, "float32")
    build(main)["main"](memory[::2], memory[1::2])
    np.testing.assert_array_equal(memory, [0, 1] * 4)


@pytest.mark.meaning("entry", "noalias")
def test_a_header_says_what_callers_from_c_must_see_to() -> None:
    """Pointers say nothing of what they point to: there is nothing to compare at entry."""
    header = kernel(COPY_STRIDED).header()
    assert "/*   A: float32 [n, 4], strides [s0, s1] in elements */" in header
    assert "/*   B: float32 [n, 4], written */" in header
    assert "in common" not in header and "is not checked" in header
    apart = build(shifted.with_attr("tir.noalias", True)).header()
    assert "/*   what is written has no memory in common with the other buffers */" in apart
