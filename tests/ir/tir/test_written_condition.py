"""What Python makes of comparisons where a program is written as a function of its indices."""

from __future__ import annotations

import pytest

from ir import relax, te, tir
from ir.error import DiagnosticError, IRValueError
from ir.script import from_source
from ir.script.ir_builder import IRBuilder
from ir.script.ir_builder import tir as tir_builder
from ir.tir import IndexMap

A = te.placeholder((8,), "float32", name="A")
B = te.placeholder((8,), "int32", name="B")

DECIDED_BY_PYTHON = {
    "if": lambda i: A[i] if i == 3 else 0.0,
    "if-not-equal": lambda i: A[i] if i != 3 else 0.0,
    "if-loads": lambda i: A[i] if B[i] == B[i] else 0.0,
    "or": lambda i: tir.if_then_else(i == 1 or i == 5, A[i], 0.0),
    "and": lambda i: tir.if_then_else(i == 1 and B[i] == 5, A[i], 0.0),
    "not": lambda i: tir.if_then_else(not i == 1, A[i], 0.0),
    "not-data": lambda i: tir.if_then_else(not B[i] == 1, A[i], 0.0),
    "in": lambda i: tir.if_then_else(i in (1, 2), A[i], 0.0),
    "not-in": lambda i: tir.if_then_else(i not in [1, 2], A[i], 0.0),
    "in-range": lambda i: tir.if_then_else(i in range(3), A[i], 0.0),
    "any": lambda i: tir.if_then_else(any(i == k for k in (1, 2)), A[i], 0.0),
    "all": lambda i: tir.if_then_else(all([i == 1, B[i] == 2]), A[i], 0.0),
    "bool": lambda i: tir.if_then_else(bool(i == 1), A[i], 0.0),
    "tensors": lambda i: tir.if_then_else(A == B, A[i], 0.0),
    "tensor-and-number": lambda i: tir.if_then_else(B == 3, A[i], 0.0),
    "element-and-tensor": lambda i: tir.if_then_else(A[i] == A, A[i], 0.0),
    "element-unlike-tensor": lambda i: tir.if_then_else(A[i] != A, A[i], 0.0),
    "index-and-tuple": lambda i: tir.if_then_else(i == (1, 2), A[i], 0.0),
}


@pytest.mark.parametrize("name", DECIDED_BY_PYTHON)
def test_truth_of_a_comparison_is_refused_in_a_compute(name):
    with pytest.raises(IRValueError, match="is not known while the program is written.*tir.any"):
        te.compute((8,), DECIDED_BY_PYTHON[name])


@pytest.mark.parametrize(
    "fcompute",
    [
        lambda i: tir.if_then_else(0 < i < 5, A[i], 0.0),
        lambda i: tir.if_then_else(not i > 5, A[i], 0.0),
        lambda i: max(A[i], 0.0),
    ],
)
def test_other_truth_values_are_refused_with_the_expression_and_the_fix(fcompute):
    with pytest.raises(IRValueError, match=r"such as \S+ [<>] .*tir.all.*tir.max"):
        te.compute((8,), fcompute)


@pytest.mark.parametrize(
    ("fcompute", "text"),
    [
        (lambda i: i == 3, "i == 3"),
        (lambda i: tir.if_then_else(i != 3, A[i], 0.0), "T.if_then_else(i != 3, A[i], T.float32(0))"),
        (
            lambda i: tir.Select(tir.any(i == 1, B[i] == 5), A[i], A[i] * 2.0),
            "T.Select(i == 1 or B[i] == 5, A[i], A[i] * T.float32(2))",
        ),
        (lambda i: A[i] * (i == 3), 'A[i] * T.Cast("float32", i == 3)'),
    ],
)
def test_a_comparison_is_an_operand(fcompute, text):
    assert str(te.compute((8,), fcompute).op.body[0]) == text


def test_what_is_known_is_a_truth_value():
    n = te.var("n")
    for shape in ((8,), (n,)):
        wide = te.placeholder((*shape, 1), "float32", name="W")
        found = te.compute(
            shape,
            lambda i, wide=wide, extent=shape[0]: wide[
                i, 0 if wide.shape[1] == 1 and extent == extent else i
            ],
        )
        assert str(found.op.body[0]) == "W[i, 0]"


def test_reducers_and_index_maps_are_written_as_functions():
    first = te.comm_reducer(lambda x, y: y if x == 0 else x, lambda dtype: tir.const(0, dtype), name="first")
    k = te.reduce_axis((0, 8), "k")
    with pytest.raises(IRValueError, match="whether x == 0 is not known"):
        te.compute((1,), lambda i: first(B[k], axis=k))
    with pytest.raises(IRValueError, match="whether i == .* is not known"):
        IndexMap.from_func(lambda i: 1 if i == 0 else i)


def _is_near(index):
    return index == 1 or index == 5


def test_a_function_that_script_calls_is_one():
    text = """
        @T.prim_func
        def main(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
            for i in range(8):
                with T.block("near"):
                    vi = T.axis.spatial(8, i)
                    B[vi] = T.if_then_else(is_near(vi), A[vi], T.float32(0))
    """
    with pytest.raises(DiagnosticError, match=r"whether vi == 1 is not known(.|\n)*is_near\(vi\)"):
        from_source(text, {"is_near": _is_near})
    accepted = from_source(text.replace("is_near(vi)", "vi in (1, 5)"))
    assert "vi == 1 or vi == 5" in accepted.script()


def test_frames_of_a_builder_are_written():
    with (
        pytest.raises(IRValueError, match="whether i == .* is not known"),
        IRBuilder(),
        tir_builder.prim_func(),
    ):
        i = te.var("i")
        if i == 3:
            tir_builder.evaluate(i)


def test_shapes_that_functions_of_relax_compare_are_no_conditions():
    text = """
        @R.function
        def main(x: R.Tensor(("n", 4), "float32")):
            return widened(x)
    """

    def widened(x):
        return x if x.struct_info.shape[0] == 1 else relax.op.add(x, x)

    assert "R.add" in from_source(text, {"widened": widened}).script()


def test_elsewhere_truth_is_identity():
    with pytest.raises(IRValueError, match="is not known"):
        te.compute((8,), DECIDED_BY_PYTHON["if"])
    i, j = te.var("i"), te.var("j")
    assert i in [j, i] and i not in [j, 3] and not (i == j) and i != j
