"""ShareOutputMemory: which intermediates move into the output's memory, and that no program computes anything else for it."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from experiments.operators import suite
from ir import IRModule, tir
from ir import dtype as dt
from ir.node import post_order_visit
from ir.script import from_source
from ir.script import tir as T
from ir.target import Target
from ir.tir import PrimFunc
from ir.tir.interpreter import run
from ir.tir.lower import lower
from ir.transform import Sequential
from schedules import Schedule, ScheduleError

Apply = Callable[..., PrimFunc]

PREPARE = Sequential(
    [
        tir.transform.LowerInitBlock(),
        tir.transform.PlanAndUpdateBufferAllocationLocation(),
        tir.transform.ConvertBlocksToOpaque(),
    ]
)

ROWS = """
@T.prim_func
def main(A: T.Buffer((4, 12), "float32"), C: T.Buffer((4, 12), "float32"), D: T.Buffer((4,), "float32")):
    T.func_attr({{"tir.noalias": {noalias}}})
    for i in range(4):
        with T.block(""):
            {regions}
            B = T.alloc_buffer({shape}, {dtype})
            {first}
                B[{written}] = A[i, j] * T.float32(2)
            {second}
                D[i] = D[i] + B[{read}]
            {third}
                {condition}
                    C[{stored}] = {value}
            {behind}
"""
PARTS = {
    "noalias": "True",
    "regions": "",
    "shape": "(4, 12)",
    "dtype": '"float32"',
    "first": "for j in range(12):",
    "written": "i, j",
    "second": "for j in range(12):",
    "read": "i, j",
    "third": "for j in range(12):",
    "condition": "if True:",
    "stored": "i, j",
    "value": "B[i, j] + D[i]",
    "behind": "",
}


def program(**parts: str) -> PrimFunc:
    return from_source(ROWS.format(**{**PARTS, **parts}))


def allocated(func: PrimFunc) -> set[str]:
    """Names of the buffers that blocks allocate."""
    found: set[str] = set()

    def note(node: Any) -> None:
        if isinstance(node, tir.Block):
            found.update(buffer.name for buffer in node.alloc_buffers)

    post_order_visit(func.body, note)
    return found


def test_a_row_moves_into_the_output(apply: Apply) -> None:
    shared = apply(tir.transform.ShareOutputMemory(), program())
    assert allocated(shared) == set()
    text = shared.script()
    assert "C[i, j] = A[i, j] * T.float32(2)" in text and "C[i, j] = C[i, j] + D[i]" in text
    assert "D[i] = D[i] + C[i, j]" in text


@pytest.mark.parametrize(
    "parts",
    [
        {"first": "for j in T.parallel(12):", "third": "for j in T.vectorized(12):"},
        {"stored": "i, k * 4 + l", "third": "for k, l in T.grid(3, 4):", "value": "B[i, k * 4 + l]"},
        # four elements of the last tile are beyond the end
        {
            "third": "for k, l in T.grid(2, 8):",
            "condition": "if k * 8 + l < 12:",
            "stored": "i, k * 8 + l",
            "value": "B[i, k * 8 + l]",
        },
        {"second": "for j in range(0):"},
        {"value": "B[i, j] * B[i, j]"},
        {"value": "T.if_then_else(B[i, j] > T.float32(1), D[i], T.float32(0))"},
        {"first": "for j, l in T.grid(12, 1):", "written": "i + l, j"},
        {"behind": "D[i] = D[i] * T.float32(2)"},
    ],
)
def test_what_moves(parts: dict[str, str], apply: Apply) -> None:
    assert allocated(apply(tir.transform.ShareOutputMemory(), program(**parts))) == set()


@pytest.mark.parametrize(
    "parts",
    [
        {"noalias": "False"},
        {"shape": "(4, 13)"},
        {"dtype": '"float64"', "value": 'T.Cast("float32", B[i, j])', "second": "for j in range(0):"},
        {"value": "B[i, 0] + B[i, j]"},  # the first element is another one by then
        {"value": "B[i, 11 - j]"},
        {"value": "D[i]"},  # nothing tells when the intermediate is used up
        {"value": "B[i, j] + C[i, j]"},  # the caller's numbers
        {"behind": "D[i] = D[i] + B[i, 3]"},  # a late reader
        {"behind": "C[i, 0] = T.float32(0)"},  # a second store
        {"behind": "D[i] = C[i, 0]"},
        {"condition": "if j < 11:"},  # the caller's number stays in the last element
        {"condition": "if D[i] > T.float32(0):"},
        {"condition": "if j + 1 < 12:"},
        {"condition": "if j + 1 < 12:", "stored": "i, j + 1", "value": "B[i, j + 1]"},  # nor the first one
        {"condition": "if j < 12:\n                    D[i] = T.float32(1)\n                else:"},
        {"condition": "if not (j < 12):"},
        {"third": "for j in range(11):"},
        {"third": "for j in T.serial(1, 12):"},
        {"third": "for k, j in T.grid(0, 12):"},  # the output keeps what it held
        # by then the first element is another one
        {
            "value": "B[i, j] + T.if_then_else(D[i] > T.float32(99), A.vload([i, j], predicate=B[i, 0] > T.float32(0)), D[i])"
        },
        {"third": "for j, k in T.grid(12, 2):"},  # the second time it would read what it has written
        {"third": "for k, l in T.grid(3, 4):", "stored": "i, k * 3 + l", "value": "B[i, k * 3 + l]"},
        {"first": "for j, l in T.grid(12, 2):", "written": "T.min(i + l, 3), j"},  # another row, too
        {
            "first": "for j, l in T.grid(12, 4):",
            "written": "l, j",
            "second": "for j, l in T.grid(12, 4):",
            "read": "l, j",
        },
    ],
)
def test_what_stays(parts: dict[str, str], apply: Apply) -> None:
    assert allocated(apply(tir.transform.ShareOutputMemory(), program(**parts))) == {"B"}


def test_intermediates_of_small_outputs_stay_near_the_core(apply: Apply) -> None:
    assert allocated(apply(tir.transform.ShareOutputMemory(at_least=4 * 12 * 4 + 1), program())) == {"B"}
    assert allocated(apply(tir.transform.ShareOutputMemory(at_least=4 * 12 * 4), program())) == set()


def test_what_is_written_and_used_in_turns_stays(apply: Apply) -> None:
    @T.prim_func
    def turns(A: T.Buffer((12,), "float32"), C: T.Buffer((12,), "float32")):
        T.func_attr({"tir.noalias": True})
        with T.block(""):
            B = T.alloc_buffer((12,))
            for i in range(12):
                B[i] = A[i] * T.float32(2)
                C[i] = B[i] + T.float32(1)

    assert allocated(apply(tir.transform.ShareOutputMemory(), turns)) == {"B"}


def test_a_function_that_may_end_before_the_output_is_written_keeps_the_intermediate(apply: Apply) -> None:
    @T.prim_func
    def early(A: T.Buffer((12,), "float32"), C: T.Buffer((12,), "float32")):
        T.func_attr({"tir.noalias": True})
        with T.block(""):
            B = T.alloc_buffer((12,))
            for i in range(12):
                B[i] = A[i] * T.float32(2)
            if B[0] < T.float32(99):
                T.evaluate(T.ret())
            for i in range(12):
                C[i] = B[i] + T.float32(1)

    assert allocated(apply(tir.transform.ShareOutputMemory(), early)) == {"B"}


BESIDE = """
@T.prim_func
def main(A: T.Buffer((4, 12), "float32"), C: T.Buffer((4, 12), "float32"), D: T.Buffer((4,), "float32")):
    T.func_attr({"tir.noalias": True})
    with T.block(""):
        B = T.alloc_buffer((4, 12), "float32")
        for i, j in T.grid(4, 12):
            B[i, j] = A[i, j] * T.float32(2)
"""


@pytest.mark.parametrize(
    "behind",
    [
        """
for i, j in T.grid(4, 12):
    C.vstore([i, j], B[i, j], predicate=A[i, j] > T.float32(0))
""",
        """
N = T.alloc_buffer((1,), "int32")
N[0] = 5
while N[0] < 2:
    N[0] = N[0] + 1
    for i, j in T.grid(4, 12):
        C[i, j] = B[i, j]
""",
        """
for i in T.thread_binding(4, thread="threadIdx.x"):
    for j in range(12):
        C[i, j] = B[i, j]
""",
        """
with T.launch_thread("threadIdx.x", 1) as t:
    for i, j in T.grid(4, 12):
        C[i, j] = B[i, j]
""",
        """
V = T.decl_buffer((48,), "float32", data=B.data)
for i, j in T.grid(4, 12):
    C[i, j] = B[i, j]
D[0] = V[7]
""",
        """
W = T.Buffer((48,), "float32", data=B.data)
for i, j in T.grid(4, 12):
    C[i, j] = B[i, j]
D[0] = W[7]
""",
        """
for i, j in T.grid(4, 12):
    C[i, j] = B[i, j]
T.evaluate(T.call_extern("int32", "known", B.data))
""",
        """
for i, j in T.grid(4, 12):
    C[i, j] = B[i, j]
with T.block(""):
    T.reads(B[1, 0:12])
    T.writes(D[0])
    V = T.match_buffer(B[1, 0:12], (12,), "float32")
    D[0] = V[7]
""",
        """
with T.block(""):
    T.reads(A[0, 0])
    T.writes(B[0, 0])
    T.block_attr({"buffer_dim_align": [[0, 0, 8, 4]]})
    B[0, 0] = A[0, 0]
for i, j in T.grid(4, 12):
    C[i, j] = B[i, j]
""",
    ],
    ids=[
        "masked",
        "while",
        "loop of threads",
        "thread",
        "view",
        "undeclared view",
        "pointer",
        "matched",
        "aligned",
    ],
)
def test_what_stays_for_what_is_behind_it(behind: str, apply: Apply) -> None:
    func = from_source(BESIDE + behind.replace("\n", "\n        "))
    assert "B" in allocated(
        apply(tir.transform.ShareOutputMemory(), func, same_results="extern" not in behind)
    )


TILES = """
@T.prim_func
def main(A: T.Buffer((12,), "float32"), C: T.Buffer((12,), "float32")):
    T.func_attr({{"tir.noalias": True}})
    for k in range(3):
        with T.block(""):
            B = T.alloc_buffer((12,), "float32"{options})
            for l in range({filled}):
                if {index} >= 0 and {index} < 12:
                    B[{index}] = A[{index}] * T.float32(2)
            for l in range(4):
                C[{stored}] = B[{stored}]
"""


@pytest.mark.parametrize(
    ("index", "filled", "stored", "options", "stays"),
    [
        ("k * 4 + l", 4, "k * 4 + l", "", False),
        ("k * 4 + l", 5, "k * 4 + l", "", True),  # the next one's
        ("k * 4 + l - 1", 5, "k * 4 + l", "", True),  # the one before's
        ("l * 3 + k", 4, "l * 3 + k", "", True),  # one here and there
        ("k * 4 + l", 4, "k * 4 + l", ', scope="local"', True),
        ("k * 4 + l", 4, "k * 4 + l", ", strides=(2,)", True),
    ],
)
def test_tiles(index: str, filled: int, stored: str, options: str, stays: bool, apply: Apply) -> None:
    func = from_source(TILES.format(index=index, filled=filled, stored=stored, options=options))
    assert allocated(apply(tir.transform.ShareOutputMemory(), func)) == ({"B"} if stays else set())


@pytest.mark.parametrize("dtype", ["bool", "int4", "uint8", "float16", "bfloat16", "float64"])
def test_dtypes(dtype: str, apply: Apply) -> None:
    text = TILES.format(index="k * 4 + l", filled=4, stored="k * 4 + l", options="", stays=False)
    func = from_source(text.replace(" * T.float32(2)", "").replace("float32", dtype))
    assert allocated(apply(tir.transform.ShareOutputMemory(), func)) == set()
    size = 12 * dt.bytes_of(dtype)
    assert allocated(apply(tir.transform.ShareOutputMemory(at_least=size), func)) == set()
    assert allocated(apply(tir.transform.ShareOutputMemory(at_least=size + 1), func)) == {"B"}


def test_an_output_takes_one_intermediate(apply: Apply) -> None:
    @T.prim_func
    def both(A: T.Buffer((12,), "float32"), C: T.Buffer((12,), "float32")):
        T.func_attr({"tir.noalias": True})
        with T.block(""):
            B = T.alloc_buffer((12,))
            E = T.alloc_buffer((12,))
            for i in range(12):
                B[i] = A[i] * T.float32(2)
                E[i] = A[i] * T.float32(3)
            for i in range(12):
                C[i] = B[i] - E[i]

    assert allocated(apply(tir.transform.ShareOutputMemory(), both)) == {"E"}


def test_columns_stay(apply: Apply) -> None:
    """Rows of a tile may lie in the same sets of a cache."""

    @T.prim_func
    def columns(A: T.Buffer((4, 12), "float32"), C: T.Buffer((4, 12), "float32")):
        T.func_attr({"tir.noalias": True})
        for k in range(3):
            with T.block(""):
                B = T.alloc_buffer((4, 12))
                for i, j in T.grid(4, 4):
                    B[i, k * 4 + j] = A[i, k * 4 + j] * T.float32(2)
                for i, j in T.grid(4, 4):
                    C[i, k * 4 + j] = B[i, k * 4 + j] + T.float32(1)

    assert allocated(apply(tir.transform.ShareOutputMemory(), columns)) == {"B"}


@pytest.mark.parametrize("of", ["B", "C"])
def test_memory_whose_address_is_known_elsewhere_stays(of: str, apply: Apply) -> None:
    address = f'T.evaluate(T.call_extern("int32", "known", T.address_of({of}[i, 0])))'
    regions = "T.reads(A[i, 0:12], D[i])\n            T.writes(D[i], C[i, 0:12])"
    func = program(regions=regions, behind=address)
    after = tir.transform.ShareOutputMemory()(IRModule({"main": func}))["main"]
    assert allocated(after) == {"B"}


def test_two_outputs_have_an_intermediate_each(apply: Apply) -> None:
    @T.prim_func
    def pair(
        A: T.Buffer((4, 12), "float32"), C: T.Buffer((4, 12), "float32"), D: T.Buffer((4, 12), "float32")
    ):
        T.func_attr({"tir.noalias": True})
        with T.block(""):
            B = T.alloc_buffer((4, 12))
            E = T.alloc_buffer((4, 12))
            for i, j in T.grid(4, 12):
                B[i, j] = A[i, j] * T.float32(2)
                E[i, j] = A[i, j] * T.float32(3)
            for i, j in T.grid(4, 12):
                C[i, j] = B[i, j] + T.float32(1)
                D[i, j] = E[i, j] + T.float32(1)

    assert allocated(apply(tir.transform.ShareOutputMemory(), pair)) == set()


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_random_schedules_mean_the_same(data: st.DataObject) -> None:
    rows, columns = data.draw(st.sampled_from([(4, 12), (6, 8), (3, 10)]))
    func = suite.workload("softmax", (rows, columns))
    sch = Schedule(func)
    norm = sch.get_block("T_softmax_norm")
    i, j = sch.get_loops(norm)
    loops = [
        *sch.split(i, [None, data.draw(st.sampled_from([1, 2, 3]))]),
        *sch.split(j, [None, data.draw(st.sampled_from([1, 2, 4, 5]))]),
    ]
    loops = data.draw(st.permutations(loops))
    sch.reorder(*loops)
    for name in ("T_softmax_expsum", "T_softmax_exp"):
        place = data.draw(st.sampled_from([None, *loops]))
        if place is not None and (name == "T_softmax_expsum" or data.draw(st.booleans())):
            try:
                sch.compute_at(sch.get_block(name), place)
            except ScheduleError:
                return
    before = PREPARE(IRModule({"main": sch.mod["main"]}))["main"]
    after = tir.transform.ShareOutputMemory()(IRModule({"main": before}))["main"]
    event("shared" if allocated(after) != allocated(before) else "not shared")
    given_array = np.random.default_rng(0).standard_normal((rows, columns)).astype("float32")
    found = [np.empty((rows, columns), "float32") for _ in range(2)]
    for one, out in zip((before, after), found, strict=True):
        run(one, given_array, out)
    np.testing.assert_array_equal(*found)


@pytest.mark.parametrize(("rows", "is_shared"), [(16, False), (128, True)])
def test_the_exponentials_of_a_large_softmax_live_in_the_output(rows: int, is_shared: bool) -> None:
    target = Target("llvm -mcpu=znver4 -num-cores 2 -l3-cache-bytes 33554432")
    text = lower(suite.workload("softmax", (rows, 30522)), target).script()
    assert bool(re.search(r"\bT_softmax_exp\b", text)) == (not is_shared)
