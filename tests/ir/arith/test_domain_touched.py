"""The box of a buffer that a statement touches."""

import pytest

from ir.arith import domain_touched
from ir.error import IRValueError
from ir.script import tir as T
from ir.tir import Range


@T.prim_func
def program(A: T.Buffer((64, 8), "float32"), B: T.Buffer((64, 8), "float32"), n: T.int32):
    for i in range(n):
        for j in range(4):
            B[i, j * 2] = A[i + 1, j] + A[i - 2, j + 3]


def texts(ranges: list[Range]) -> list[tuple[str, str]]:
    return [(str(item.min), str(item.extent)) for item in ranges]


def test_loads_and_stores_are_told_apart() -> None:
    a, b = program.buffer_map[program.params[0]], program.buffer_map[program.params[1]]
    assert texts(domain_touched(program.body, a)) == [("-2", "n + 3"), ("0", "7")]
    assert texts(domain_touched(program.body, b, consider_loads=False)) == [("0", "n"), ("0", "7")]
    with pytest.raises(IRValueError, match="does not access B"):
        domain_touched(program.body, b, True, False)


def test_loops_outside_are_fixed() -> None:
    a = program.buffer_map[program.params[0]]
    assert texts(domain_touched(program.body.body, a)) == [("i - 2", "4"), ("0", "7")]
