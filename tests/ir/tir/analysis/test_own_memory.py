"""Memory that has one name."""

from __future__ import annotations

import pytest

from ir.script import from_source
from ir.tir.analysis.own_memory import own_memory
from ir.transform import PassContext

PROGRAM = """@T.prim_func
def main(A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32")):
    T.func_attr({{"tir.noalias": {noalias}}})
    X = T.decl_buffer((8,), "int32")
    X[0] = A[0]
    {statement}
    B[0] = X[0]
"""


def names(statement: str, noalias: bool = True) -> set[str]:
    func = from_source(PROGRAM.format(statement=statement, noalias=noalias))
    buffers = {func.buffer_map[param].data: func.buffer_map[param].name for param in func.params}
    return {buffers.get(var, "X") for var in own_memory(func)}


@pytest.mark.parametrize(
    ("statement", "lost"),
    [
        ("B[1] = X[A[0]]", ""),
        ("for i in range(8): B[i] = A[i]", ""),
        ("Y = T.Buffer((8,), 'float32', data=X.data); Y[1] = T.float32(1)", ""),  # the same name
        ("p: T.handle('int8') = X.data", "X"),
        ("p: T.handle('int8') = T.address_of(A[1])", "A"),
        ("T.evaluate(T.call_extern('int32', 'f', B.data))", "B"),
        ("T.evaluate(T.tvm_access_ptr(T.type_annotation('int32'), X.data, 0, 8, 3))", "X"),
        ("T.prefetch(T.address_of(X[1]), 0, 3, 1)", ""),
        ("T.evaluate(T.address_of(X[1])); T.prefetch(T.address_of(X[1]), 0, 3, 1)", "X"),
    ],
)
def test_what_has_another_name(statement: str, lost: str) -> None:
    statement = statement.replace("; ", "\n    ")
    assert names(statement) == {"A", "B", "X"} - {lost}
    assert names(statement, noalias=False) == {"X"} - {lost}


def test_a_promise_that_is_switched_off() -> None:
    with PassContext(config={"tir.noalias": False}):
        assert names("B[1] = X[1]") == {"X"}


def test_matched_regions_have_two_names() -> None:
    func = from_source("""@T.prim_func
def main(A: T.Buffer((8, 8), "int32"), B: T.Buffer((8, 8), "int32")):
    T.func_attr({"tir.noalias": True})
    X = T.alloc_buffer((8, 8), "int32")
    for i in range(8):
        with T.block("outer"):
            vi = T.axis.spatial(8, i)
            row = T.match_buffer(A[vi, 0:8], (8,), "int32", offset_factor=1)
            row[0] = X[vi, 0] + B[vi, 0]
""")
    (a, b) = (func.buffer_map[param].data for param in func.params)
    own = own_memory(func)
    assert a not in own and b in own and len(own) == 2
