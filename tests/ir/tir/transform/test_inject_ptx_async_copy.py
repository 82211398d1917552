"""InjectPTXAsyncCopy: which copies become asynchronous, and what their attributes become."""

import re

import numpy as np
import pytest
from hypothesis import event, given, settings

from ir import IRModule, assert_structural_equal, tir
from ir.error import IRValueError
from ir.script import from_source
from ir.script import tir as T
from ir.tir.interpreter import run
from ir.transform import Sequential

from .late_copies import LateCopies
from .test_inject_software_pipeline import pipelines

PASS = tir.transform.InjectPTXAsyncCopy()


def injected(func):
    return PASS(IRModule({"main": func}))["main"]


def equals(func, expected):
    after = injected(func)
    assert_structural_equal(after.without_attr("global_symbol"), expected.without_attr("global_symbol"), True)


def copy(statement, scope="shared", dtype="float32", count=4):
    """A kernel whose threads run a statement asynchronously."""
    return from_source(
        f"""
from ir.script import tir as T

@T.prim_func
def main(a: T.handle, c: T.handle, n: T.int32):
    A = T.match_buffer(a, (4096,), "{dtype}")
    C = T.match_buffer(c, (4096,), "{dtype}")
    tx = T.launch_thread("threadIdx.x", 32)
    B_data = T.allocate([1024], "{dtype}", "{scope}")
    B = T.decl_buffer((1024,), "{dtype}", data=B_data, scope="{scope}")
    for i in range(4):
        with T.attr(0, "async_scope", 1):
            {statement}
        T.evaluate(T.ptx_commit_group())
        T.evaluate(T.ptx_wait_group(0))
        C[i * 32 + tx] = B[tx]
"""
    )


def calls(func):
    return re.findall(r"ptx_cp_async\((.*)\)", func.script())


@T.prim_func
def before(a: T.handle, c: T.handle):
    A = T.match_buffer(a, (4096,), "float32")
    C = T.match_buffer(c, (4096,), "float32")
    tx = T.launch_thread("threadIdx.x", 32)
    B_data = T.allocate([256], "float32", "shared")
    B = T.decl_buffer((256,), "float32", data=B_data, scope="shared")
    with T.attr(0, "async_commit_queue_scope", 0), T.attr(0, "async_scope", 1):
        B[tx * 4 : tx * 4 + 4] = A[tx * 4 : tx * 4 + 4]
    for i in range(31):
        with T.attr(0, "async_commit_queue_scope", 0), T.attr(0, "async_scope", 1):
            B[(i + 1) % 2 * 128 + tx * 4 : (i + 1) % 2 * 128 + tx * 4 + 4] = A[
                i * 128 + tx * 4 + 128 : i * 128 + tx * 4 + 132
            ]
        with T.attr(0, "async_wait_queue_scope", 0), T.attr(0, "async_wait_inflight_count", 1):
            C[i * 32 + tx] = B[i % 2 * 128 + tx * 4]
    for j in T.unroll(2):
        with T.attr(0, "async_wait_queue_scope", 0), T.attr(0, "async_wait_inflight_count", 1 - j):
            C[j * 32 + tx] = B[128 + tx * 4]


@T.prim_func
def after(a: T.handle, c: T.handle):
    A = T.match_buffer(a, (4096,), "float32")
    C = T.match_buffer(c, (4096,), "float32")
    tx = T.launch_thread("threadIdx.x", 32)
    B_data = T.allocate([256], "float32", "shared")
    B = T.decl_buffer((256,), "float32", data=B_data, scope="shared")
    T.evaluate(T.ptx_cp_async("float32", B_data, tx * 4, A.data, tx * 4, 16))
    T.evaluate(T.ptx_commit_group())
    for i in range(31):
        T.evaluate(
            T.ptx_cp_async("float32", B_data, (i + 1) % 2 * 128 + tx * 4, A.data, i * 128 + tx * 4 + 128, 16)
        )
        T.evaluate(T.ptx_commit_group())
        T.evaluate(T.ptx_wait_group(1))
        C[i * 32 + tx] = B[i % 2 * 128 + tx * 4]
    for j in T.unroll(2):
        T.evaluate(T.ptx_wait_group(0))
        C[j * 32 + tx] = B[128 + tx * 4]


def test_queues_become_groups():
    equals(before, after)


@pytest.mark.parametrize(
    ("statement", "dtype", "expected"),
    [
        ("B[tx] = A[i * 32 + tx]", "float32", '"float32", B.data, tx, A.data, i * 32 + tx, 4'),
        ("B[tx] = A[i * 32 + tx]", "float64", '"float64", B.data, tx, A.data, i * 32 + tx, 8'),
        (
            "B[tx * 2 : tx * 2 + 2] = A[tx * 2 : tx * 2 + 2]",
            "float16",
            '"float16", B.data, tx * 2, A.data, tx * 2, 4',
        ),
        (
            "B[tx * 8 : tx * 8 + 8] = A[tx * 8 : tx * 8 + 8]",
            "float16",
            '"float16", B.data, tx * 8, A.data, tx * 8, 16',
        ),
        (
            "B[tx * 4 : tx * 4 + 4] = A[tx * 4 : tx * 4 + 4]",
            "int8",
            '"int8", B.data, tx * 4, A.data, tx * 4, 4',
        ),
        (
            "B[tx] = T.if_then_else(tx < n, A[tx], T.float32(0))",
            "float32",
            '"float32", B.data, tx, A.data, tx, 4, tx < n',
        ),
        (
            "B[tx * 4 : tx * 4 + 4] = T.if_then_else(tx < n, A[tx * 4 : tx * 4 + 4], T.Broadcast(T.float32(0), 4))",
            "float32",
            '"float32", B.data, tx * 4, A.data, tx * 4, 16, tx < n',
        ),
        (
            "B[tx] = T.if_then_else(tx < n, T.if_then_else(i < 3, A[tx], T.float32(0)), T.float32(0))",
            "float32",
            '"float32", B.data, tx, A.data, tx, 4, tx < n and i < 3',
        ),
    ],
)
@pytest.mark.parametrize("scope", ["shared", "shared.dyn"])
def test_copies(statement, dtype, expected, scope):
    assert calls(injected(copy(statement, scope, dtype))) == [expected]


@pytest.mark.parametrize(
    ("statement", "scope", "dtype"),
    [
        ("B[tx] = A[tx]", "shared", "float16"),  # 2 bytes
        ("B[tx * 8 : tx * 8 + 8] = A[tx * 8 : tx * 8 + 8]", "shared", "float32"),  # 32 bytes
        ("B[tx] = A[tx] + T.float32(1)", "shared", "float32"),  # no copy
        ("B[tx] = T.if_then_else(tx < n, A[tx], T.float32(1))", "shared", "float32"),
        ("B[tx] = T.if_then_else(tx < n, A[tx], T.float32(-0.0))", "shared", "float32"),
        ("B[tx] = A[tx]", "local", "float32"),
        ("B[tx] = B[tx + 32]", "shared", "float32"),
        (
            "B[tx * 4 : tx * 4 + 4] = A[tx * 4 + 1 : tx * 4 + 5]",
            "shared",
            "float32",
        ),  # not at a multiple of 16 bytes
        ("B[tx * 2 : tx * 2 + 4] = A[tx * 4 : tx * 4 + 4]", "shared", "float32"),
        ("B[tx * 4 : tx * 4 + 4] = A[T.Ramp(tx * 8, 2, 4)]", "shared", "float32"),
    ],
)
def test_everything_else_is_synchronous(statement, scope, dtype):
    func = copy(statement, scope, dtype)
    text = injected(func).script()

    assert "cp_async" not in text and "async_scope" not in text
    assert statement.split(" = ")[0].replace(" : ", ":") in text


def test_copies_outside_of_a_scope_are_synchronous():
    func = copy("B[tx] = A[tx]\n        B[tx + 32] = A[tx + 32]")

    assert len(calls(injected(func))) == 1


def test_a_scope_that_nobody_waits_for_ends_with_a_wait():
    text = copy("B[tx] = A[tx]").script()
    alone = "\n".join(line for line in text.splitlines() if "group" not in line)

    assert re.findall(r"ptx_\w+", injected(from_source(alone)).script()) == [
        "ptx_cp_async",
        "ptx_commit_group",
        "ptx_wait_group",
    ]


def test_a_function_without_scopes_is_the_same_object():
    @T.prim_func
    def plain(A: T.Buffer((16,), "float32")):
        for i in range(16):
            A[i] = T.float32(0)

    assert injected(plain) is plain


LOWERED = Sequential(
    [
        tir.transform.InjectSoftwarePipeline(),
        tir.transform.LowerOpaqueBlock(),
        tir.transform.FlattenBuffer(),
        tir.transform.SimplifyIndices(),
    ]
)


def in_a_thread(func):
    """Asynchronous copies have a meaning in threads only."""
    thread = tir.IterVar(tir.Range(0, 1), tir.Var("tx"), tir.IterVar.ThreadIndex, "threadIdx.x")
    return func.replace(body=tir.AttrStmt(thread, "thread_extent", 1, func.body))


@settings(max_examples=60, deadline=None)
@given(pipelines())
def test_random_pipelines_compute_the_same_however_late_their_copies_arrive(drawn):
    func, extent, *_ = drawn
    try:
        after = injected(in_a_thread(LOWERED(IRModule({"main": func}))["main"]))
    except IRValueError:
        event("refused")
        return
    first = [
        np.arange(32, dtype="float32") ** 2 % 13,
        np.zeros(32, "float32"),
        np.arange(32, dtype="float32"),
    ]
    second = [item.copy() for item in first]
    run(func, *first, extent)
    late = LateCopies(after, [*second, extent])
    event("asynchronous" if late.copies else "synchronous")
    np.testing.assert_array_equal(first, second)
