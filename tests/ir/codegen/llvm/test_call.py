"""Calls between functions: what they pass, what comes back, and what happens when one fails."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ir import IRModule
from ir import dtype as dt
from ir.codegen.build import KernelError, build
from ir.codegen.error import CodegenError
from ir.script import from_source
from ir.tir import ForKind
from ir.tir.interpreter import run

from ....semantics.running import same

_DTYPES = [
    *(f"{sign}int{bits}" for bits in (2, 4, 8, 16, 32, 64) for sign in ("", "u")),
    *("bool", "float8_e4m3fn", "float16", "bfloat16", "float32", "float64"),
]

_FUNCTIONS = """
    @T.prim_func(private=True)
    def double(x: T.int32) -> T.int32:
        assert x < 30, "x is large"
        if x == 7:
            return -1
        return x * 2
    @T.prim_func(private=True)
    def factorial(n: T.int32) -> T.int32:
        if n <= 1:
            return 1
        return n * M.factorial(n - 1)
    @T.prim_func(private=True)
    def is_odd(n: T.int32) -> T.bool:
        return n % 2 == 1
"""


def calling(*lines: str, functions: str = _FUNCTIONS, dtype: str = "int32") -> IRModule:
    """A module with a function ``main`` of these lines, over buffers A and O of eight elements."""
    parameters = f'A: T.Buffer((8,), "{dtype}"), O: T.Buffer((8,), "{dtype}")'
    body = "".join(f"        {line}\n" for line in lines)
    module = from_source(
        f"@I.ir_module\nclass M:{functions}\n    @T.prim_func\n    def main({parameters}):\n{body}"
    )
    assert isinstance(module, IRModule)
    return module


def leaves(program: IRModule, given: np.ndarray, expected: Any) -> None:
    """Interpreted and natively, the program leaves what is expected in O where ``given`` is in A."""
    for execute in (lambda *args: run(program, *args), build(program)["main"]):
        found = np.zeros_like(given)
        execute(given, found)
        same(found, expected)


@pytest.mark.meaning("call")
@pytest.mark.parametrize("dtype", _DTYPES)
def test_numbers_of_every_dtype_are_passed_and_returned(dtype: str) -> None:
    value = "not x" if dtype == "bool" else "x + x"
    functions = f"""
    @T.prim_func(private=True)
    def f(x: T.{dtype}) -> T.{dtype}:
        return {value}
"""
    numbers = np.array([0, 1, 100, 200, 3, 255, 1, 0])
    given = (np.arange(8) % 2 if dtype == "bool" else numbers).astype(dt.to_numpy(dtype))
    if dtype == "bool":
        expected = ~given
    elif dt.is_integral(dtype) and dt.bits(dtype) < 8:  # numpy's int4 wraps another way
        expected = np.array([_wrapped(2 * int(item), dtype) for item in given]).astype(given.dtype)
    else:
        expected = given + given
    program = calling("for i in range(8):", "    O[i] = M.f(A[i])", functions=functions, dtype=dtype)
    leaves(program, given, expected)


def _wrapped(value: int, dtype: str) -> int:
    """Modulo 2^w, by hand."""
    low, _ = dt.integer_range(dtype)
    return (value - low) % (1 << dt.bits(dtype)) + low


@pytest.mark.parametrize("options", ["", "(private=True)"])
@pytest.mark.parametrize("leave", ["return", "T.ret"])
def test_functions_return_however_they_are_written(options: str, leave: str) -> None:
    functions = f"""
    @T.prim_func{options}
    def f(x: T.int32) -> T.int32:
        {leave}(x + 1)
"""
    program = calling("O[0] = M.f(A[3])", functions=functions)
    leaves(program, np.arange(8, dtype="int32"), [4, *[0] * 7])


_EXPECTED = {
    "for i in range(8):|    if M.double(A[i]) > 4 and M.is_odd(i):|        O[i] = 1": [0, 0, 0, 1, 0, 1, 0, 0],
    "for i in range(8):|    if i < 4 or M.double(i) > 9:|        O[i] = 1": [1, 1, 1, 1, 0, 1, 1, 0],
    "for i in range(8):|    if i < 9 or M.double(i + 30) > 9:|        O[i] = 1": [1] * 8,
    "for i in T.vectorized(8):|    O[i] = M.double(A[i])": [0, 2, 4, 6, 8, 10, 12, -1],
    "for i in T.parallel(8):|    O[i] = M.double(A[i])": [0, 2, 4, 6, 8, 10, 12, -1],
    "for i in T.unroll(8):|    O[i] = M.double(A[i])": [0, 2, 4, 6, 8, 10, 12, -1],
    "for i in range(8):|    O[i] = M.factorial(A[i] + 1)": [1, 2, 6, 24, 120, 720, 5040, 40320],
    "for i in range(8):|    O[i] = T.if_then_else(M.is_odd(i), M.double(i), i)": [0, 2, 2, 6, 4, 10, 6, -1],
    "for i in range(8):|    O[i] = T.if_then_else(i < 30, i, M.double(i + 30))": list(range(8)),
    "for i in range(8):|    O[i] = T.Select(M.is_odd(i), M.double(i), i)": [0, 2, 2, 6, 4, 10, 6, -1],
    "for i in range(4):|    O[M.double(i)] = A[M.double(i) + 1]": [1, 0, 3, 0, 5, 0, 7, 0],
    "while M.double(O[0]) >= 0:|    O[0] = O[0] + 1": [7, 0, 0, 0, 0, 0, 0, 0],
    "assert M.is_odd(A[1])|x = M.double(A[2])|O[0] = x + x": [8, 0, 0, 0, 0, 0, 0, 0],
    "for i in range(M.double(A[2])):|    O[i] = 1": [1, 1, 1, 1, 0, 0, 0, 0],
    "M.double(3)|O[0] = M.double(M.double(M.factorial(3)))": [24, 0, 0, 0, 0, 0, 0, 0],
}  # fmt: skip


@pytest.mark.meaning("call")
@pytest.mark.parametrize("lines", _EXPECTED)
def test_results_are_values_wherever_a_value_stands(lines: str) -> None:
    leaves(calling(*lines.split("|")), np.arange(8, dtype="int32"), _EXPECTED[lines])


def test_threads_call() -> None:
    """With enough work that threads share it: too much to interpret."""
    lines = ("for i in T.parallel(8):", "    for j in range(100000):", "        O[i] = M.double(A[i])")
    found = np.zeros(8, "int32")
    build(calling(*lines))["main"](np.arange(8, dtype="int32"), found)
    same(found, [0, 2, 4, 6, 8, 10, 12, -1])


@pytest.mark.parametrize("where", [
    "O[i] = M.double(A[i] + 28)", "M.double(i + 28)", "if i > 9 or M.double(i + 28) > 0:\n                O[i] = 1",
])  # fmt: skip
@pytest.mark.parametrize("loop", ["range", "T.vectorized", "T.parallel"])
def test_what_fails_inside_of_a_call_ends_the_caller(where: str, loop: str) -> None:
    native = build(calling(f"for i in {loop}(8):", f"    {where}"))["main"]
    with pytest.raises(KernelError, match="assertion failed: x is large"):
        native(np.arange(8, dtype="int32"), np.zeros(8, "int32"))


def test_a_result_may_be_left_alone_in_a_function_that_the_runtime_gives_memory() -> None:
    functions = """
    @T.prim_func(private=True)
    def f(x: T.int32) -> T.int32:
        B = T.alloc_buffer((100000,), "int32")
        for i in range(100000):
            B[i] = x + i
        return B[x]
"""
    program = calling("M.f(3)", "O[0] = M.f(4)", functions=functions)
    o = np.zeros(8, "int32")
    build(program)["main"](np.zeros(8, "int32"), o)
    assert o[0] == 8
    run(program, np.zeros(8, "int32"), o)


def test_a_part_of_a_parallel_loop_cannot_return() -> None:
    lines = ["for i in range(8):", "    for j in range(100000):", "        O[i] = j", "    {}"]
    for leave in ("T.ret(i)", "T.ret()"):
        module = calling(*[line.format(leave) for line in lines])
        loop = module["main"].body
        parallel = module["main"].replace(body=loop.replace(kind=ForKind.PARALLEL))
        with pytest.raises(CodegenError, match=r"T\.ret is not possible inside of a parallel loop"):
            build(IRModule({**module.functions, module.get_global_var("main"): parallel}))
