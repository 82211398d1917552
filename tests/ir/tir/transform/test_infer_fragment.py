"""InferFragment: fragments say their shape and layout; calls that disagree are refused."""

import pytest

from ir import IRModule, tir
from ir.error import IRValueError
from ir.script import from_source

PASS = tir.transform.InferFragment()


def kernel(calls, scopes=("wmma.matrix_a", "wmma.matrix_b", "wmma.accumulator")):
    lines = "\n".join(f"    T.evaluate({line})" for line in calls)
    return from_source(
        f"""
from ir.script import tir as T

@T.prim_func
def main(S: T.Buffer((256,), "float16"), C: T.Buffer((256,), "float32")):
    tx = T.launch_thread("threadIdx.x", 32)
    A = T.allocate([256], "float16", "{scopes[0]}")
    B = T.allocate([256], "float16", "{scopes[1]}")
    D = T.allocate([256], "float32", "{scopes[2]}")
{lines}
"""
    )


def load(name, layout="row_major", shape="16, 16, 16"):
    return f'T.tvm_load_matrix_sync({name}, {shape}, 0, S.access_ptr("r"), 16, "{layout}")'


def fill(shape="16, 16, 16", name="D"):
    return f"T.tvm_fill_fragment({name}, {shape}, 0, T.float32(0))"


PRODUCT = "T.tvm_mma_sync(D, 0, A, 0, B, 0, D, 0)"
STORE = 'T.tvm_store_matrix_sync(D, 16, 16, 16, 0, C.access_ptr("w"), 16, "col_major")'


def attributes(func):
    """(fragment, key, value) in each allocation, from the outside."""
    found, node = [], PASS(IRModule({"main": func}))["main"].body
    while isinstance(node, tir.AttrStmt | tir.Allocate):
        if isinstance(node, tir.AttrStmt) and node.attr_key.startswith("fragment"):
            found.append((node.node.name, node.attr_key, node.value.value))
        node = node.body
    return found


@pytest.mark.parametrize("shape", ["16, 16, 16", "8, 32, 16", "32, 8, 16"])
def test_shapes_and_layouts_come_from_calls(shape):
    store = STORE.replace("16, 16, 16", shape)
    func = kernel([fill(shape), load("A", shape=shape), load("B", "col_major", shape), PRODUCT, store])

    assert attributes(func) == [
        ("A", "fragment_layout", "row_major"),
        ("A", "fragment_shape", shape),
        ("B", "fragment_layout", "col_major"),
        ("B", "fragment_shape", shape),
        ("D", "fragment_shape", shape),
    ]


def test_an_accumulator_that_is_only_multiplied_has_the_shape_of_the_product():
    assert attributes(kernel([PRODUCT, load("A"), load("B")]))[-1] == ("D", "fragment_shape", "16, 16, 16")


@pytest.mark.parametrize(
    ("calls", "message"),
    [
        (
            [load("A"), load("A", shape="8, 32, 16")],
            "fragment A as one of m, n, k = 8, 32, 16, another call as one of 16, 16, 16",
        ),
        (
            [load("A"), load("A", "col_major")],
            "fragment A with layout col_major, another call with row_major; a fragment has one layout",
        ),
        ([fill("8, 32, 16"), STORE], "tvm_store_matrix_sync uses fragment D as one of m, n, k = 16, 16, 16"),
        (
            [load("A"), load("B", shape="8, 32, 16"), PRODUCT],
            r"multiplies fragments of m, n, k = 16, 16, 16 \(A\) and 8, 32, 16 \(B\)",
        ),
        ([load("A", "diagonal")], "fragment A has layout 'diagonal'; there are row_major, col_major"),
        ([load("A", shape="16, 16, tx")], "fragment A has no constant shape"),
        (
            [load("A"), load("B"), "T.tvm_mma_sync(D, 0, B, 0, A, 0, D, 0)"],
            "fragment B of scope 'wmma.matrix_b' where one of 'wmma.matrix_a'",
        ),
        ([fill(), PRODUCT], "fragment A of scope 'wmma.matrix_a' has no layout: no call loads it"),
        ([load("A"), load("B")], "fragment D of scope 'wmma.accumulator' has no shape"),
    ],
)
def test_what_does_not_fit_is_refused(calls, message):
    with pytest.raises(IRValueError, match=message):
        PASS(IRModule({"main": kernel(calls)}))


def test_other_memory_is_no_fragment():
    func = kernel([load("A")], ("local", "wmma.matrix_b", "wmma.accumulator"))

    with pytest.raises(
        IRValueError, match="takes A for a fragment, of scope 'local'; fragments have the scopes"
    ):
        PASS(IRModule({"main": func}))


def test_a_function_without_fragments_is_the_same_object():
    func = kernel([], ("local", "local", "local"))

    assert PASS(IRModule({"main": func}))["main"] is func
