"""Tensors, computes, reducers and externs, before they are lowered."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from ir import te, tir
from ir.error import IRTypeError, IRValueError
from ir.te import ComputeOp, ExternOp, PlaceholderOp, Tensor
from ir.tir import ProducerLoad, Reduce
from ir.tir.interpreter import run


def test_placeholder():
    n = te.var("n", "int64")
    a = te.placeholder((n, 4), "float16", name="A")
    assert isinstance(a, Tensor) and isinstance(a.op, PlaceholderOp)
    assert a.ndim == 2 and a.dtype == "float16" and a.name == "A" and a.shape[0] is n
    assert a.op.output(0) is a


def test_indexing_builds_loads():
    a = te.placeholder((4, 8), name="A")
    i, j = te.var("i"), te.var("j")
    for load in (a[i, j], a(i, j), a[i][j]):
        assert isinstance(load, ProducerLoad)
        assert load.producer is a and load.indices == (i, j) and load.dtype == "float32"
    with pytest.raises(IRValueError, match="A has 2 dimensions, got 3"):
        a[i, j, i]
    with pytest.raises(IRTypeError, match="index it"):
        te.exp(a)


def test_axes_are_named_after_the_parameters():
    a = te.placeholder((4, 8), name="A")
    b = te.compute((4, 8), lambda row, col: a[row, col], name="B")
    assert [axis.var.name for axis in b.op.axis] == ["row", "col"]
    c = te.compute((4, 8), lambda *i: a(*i))
    assert c.name == "compute"
    assert [axis.var.name for axis in c.op.axis] == ["i0", "i1"]
    d = te.compute((4, 8), lambda x, *rest: a(x, *rest), varargs_names=["y"])
    assert [axis.var.name for axis in d.op.axis] == ["x", "y"]
    with pytest.raises(IRValueError, match="takes 3 indices, but the shape has 2"):
        te.compute((4, 8), lambda i, j, k: a[i, j], name="B")


def test_axes_take_the_extents_dtype():
    n = te.var("n", "int64")
    b = te.compute((n, 4), lambda i, j: i.astype("float32"))
    assert [axis.var.dtype for axis in b.op.axis] == ["int64", "int32"]


def test_reductions():
    a = te.placeholder((4, 8), name="A")
    k = te.reduce_axis((0, 8), name="k")
    for reducer, identity in ((te.sum, 0.0), (te.max, -float("inf")), (te.prod, 1.0)):
        b = te.compute((4,), lambda i, f=reducer: f(a[i, k], axis=k), name="B")
        assert isinstance(b.op, ComputeOp) and isinstance(b.op.body[0], Reduce)
        assert b.op.reduce_axis == (k,)
        assert b.op.body[0].combiner.identity_element[0].value == identity
        assert b.op.input_tensors == [a]


def test_reducers_combine_values_directly():
    x, y = te.var("x"), te.var("y")
    assert isinstance(te.max(x, y), tir.Max)
    assert isinstance(te.min(x, y, 3), tir.Min)


def test_tuple_reduction_gives_a_tuple_of_tensors():
    a = te.placeholder((4, 8), name="A")
    k = te.reduce_axis((0, 8), name="k")
    argmax = te.comm_reducer(
        lambda x, y: (tir.Select(x[1] >= y[1], x[0], y[0]), tir.Select(x[1] >= y[1], x[1], y[1])),
        lambda index, value: (tir.const(-1, index), te.min_value(value)),
        name="argmax",
    )
    where, value = te.compute((4,), lambda i: argmax((k.var, a[i, k]), axis=k), name="T")
    assert (where.dtype, value.dtype) == ("int32", "float32")
    assert where.op is value.op and (where.name, value.name) == ("T_v0", "T_v1")


def test_reductions_only_stand_alone():
    a = te.placeholder((4, 8), name="A")
    k = te.reduce_axis((0, 8), name="k")
    with pytest.raises(IRValueError, match="compute B has a reduction inside an expression"):
        te.compute((4,), lambda i: te.sum(a[i, k], axis=k) + 1.0, name="B")
    with pytest.raises(IRTypeError, match="i is no reduction axis"):
        te.sum(a[0, 0], axis=te.compute((4,), lambda i: a[i, 0]).op.axis[0])


def test_extern_checks_its_arguments():
    a = te.placeholder((4,), name="A")
    b = te.placeholder((4,), "int32", name="B")
    out = te.extern((4,), [a], lambda ins, outs: tir.call_packed("f", ins[0], outs[0]), name="E")
    assert isinstance(out.op, ExternOp) and out.dtype == "float32"
    with pytest.raises(IRValueError, match=r"dtypes \['float32', 'int32'\]; pass dtype"):
        te.extern((4,), [a, b], lambda ins, outs: tir.call_packed("f"), name="E")
    with pytest.raises(IRTypeError, match="must return a statement"):
        te.extern((4,), [a], lambda ins, outs: None, name="E")
    two = te.extern([(4,), (2,)], [a], lambda ins, outs: tir.call_packed("f"), dtype=["int32", "float32"])
    assert [(item.dtype, item.shape[0].value) for item in two] == [("int32", 4), ("float32", 2)]


def test_const_reduce_starts_at_the_constant():
    import numpy as np

    from ir.tir import interpreter

    a = te.placeholder((4, 8), name="A")
    k = te.reduce_axis((0, 8), name="k")
    func = te.create_prim_func([a, te.compute((4,), lambda i: te.const_reduce(10, a[i, k], k), name="B")])
    data, out = np.ones((4, 8), "float32"), np.zeros(4, "float32")
    interpreter.run(func, data, out)
    np.testing.assert_array_equal(out, np.full(4, 18.0))


def test_thread_axis():
    axis = te.thread_axis((0, 32), "threadIdx.x")
    assert axis.thread_tag == "threadIdx.x" and axis.dom.extent.value == 32
    assert te.thread_axis("blockIdx.x").var.name == "blockIdx.x"
    with pytest.raises(IRValueError, match="needs a tag"):
        te.thread_axis((0, 32))


def test_tensors_are_equal_to_themselves_alone() -> None:
    one, other = (te.placeholder((4,), name="A") for _ in range(2))
    assert one == one and not one == other and one != other
    assert len({one, other, one}) == 2


@pytest.mark.parametrize(
    "indexed", [lambda A, x, i: A[x[i]], lambda A, x, i: A(x[i]), lambda A, x, i: A[1.5]]
)
def test_an_index_that_is_no_integer_is_refused(indexed):
    A, x = te.placeholder((8,), name="A"), te.placeholder((8,), name="x")
    with pytest.raises(
        IRTypeError, match=r"index 0 of tensor A is .*, of dtype float32; an index is an integer"
    ):
        te.compute((8,), lambda i: indexed(A, x, i), name="B")
    te.compute((8,), lambda i: A[x[i].astype("int32")], name="B")


_NO_EXTENTS = [
    (-4, IRValueError, "is -4; expected an integer of at least 0"),
    (4.5, IRTypeError, "is 4.5, of dtype float32; expected an integer of at least 0"),
    ("abc", IRTypeError, "is 'abc', of dtype handle; expected an integer"),
    (True, IRTypeError, "is 1, of dtype bool; expected an integer"),
]


@pytest.mark.parametrize(("extent", "error", "message"), _NO_EXTENTS, ids=lambda value: str(value))
def test_what_is_no_extent_is_refused(extent, error, message):
    with pytest.raises(error, match=f"extent 1 of placeholder A {message}"):
        te.placeholder((2, extent), name="A")
    with pytest.raises(error, match=f"extent 0 of compute B {message}"):
        te.compute(extent, lambda i: i, name="B")
    with pytest.raises(error, match=f"extent 0 of extern C {message}"):
        te.extern((extent,), [], lambda ins, outs: tir.Evaluate(0), name="C", dtype="int32")
    with pytest.raises(error, match=f"extent 0 of buffer D {message}"):
        tir.decl_buffer((extent, 3), name="D")
    with pytest.raises(error, match=f"extent 0 of allocation E {message}"):
        tir.Allocate(tir.Var("E", "handle"), "int8", [extent], tir.const(True), tir.Evaluate(0))


@pytest.mark.parametrize("extent", [0, 3, te.var("n"), te.size_var("m", "int64") * 2, tir.const(4, "uint8")])
def test_extents_of_zero_and_symbolic_ones_are_ordinary(extent):
    a = te.placeholder((extent,), name="A")
    assert te.create_prim_func([a, te.compute((extent,), lambda i: a[i], name="B")]) is not None


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (
            lambda A: te.compute((4,), lambda i: "a"),
            "the function returned the text a; an element is a number",
        ),
        (lambda A: te.compute((4,), lambda i: tir.StringImm("a")), "returned the text"),
        (lambda A: te.compute((4,), lambda i: (A[i], "a")), "returned the text a"),
        (
            lambda A: te.compute(lambda i: A[i], (4,)),
            r"takes the shape, then the function .*; got a function and \(4,\)",
        ),
        (
            lambda A: te.compute((4,), lambda i: np.zeros(4)),
            r"an array of numpy of shape \(4,\).*te.placeholder",
        ),
        (lambda A: te.compute((4,), lambda i: int(A[i])), 'as in x.astype\\("int32"\\)'),
        (lambda A: te.compute((4,), lambda i: round(A[i])), r"tir\.round\(x\) in te"),
        (lambda A: te.compute((4,), lambda i: divmod(A[i], 2)[0]), "write x // y and x % y"),
        (lambda A: te.compute((4,), lambda i: divmod(7, A[i])[0]), "write x // y and x % y"),
        (lambda A: te.compute((len(A),), lambda i: A[i]), r"tensor A has no length; .* A\.shape\[0\]"),
    ],
)
def test_what_is_no_element_is_refused_with_the_fix(build: Callable[[Tensor], object], message: str) -> None:
    with pytest.raises(IRTypeError, match=message):
        build(te.placeholder((4,), "float32", name="A"))


@pytest.mark.parametrize("dtype", ["float32", "int32", "int8", "uint8"])
def test_abs_is_the_absolute_value(dtype: str) -> None:
    given = np.array([-3, 0, 5, -128], "int64").astype(dtype)
    A = te.placeholder((4,), dtype, name="A")
    B = te.compute((4,), lambda i: abs(A[i]), name="B")
    result = np.zeros(4, dtype)
    run(te.create_prim_func([A, B]), given, result)
    np.testing.assert_array_equal(result, np.abs(given))


def test_a_tensor_is_true_and_a_number_of_numpy_an_element() -> None:
    assert te.placeholder((4,), name="A")
    assert te.compute((4,), lambda i: np.array(3.0)).dtype in ("float32", "float64")
