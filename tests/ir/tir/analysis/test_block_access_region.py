"""The regions of a block hold every element that its body touches, loops inside relaxed away."""

from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ir import tir
from ir.arith.deep_equal import expr_deep_equal
from ir.tir import Block, BlockRealize, BufferLoad, BufferStore, For, ForKind, Range, Stmt, decl_buffer, seq
from ir.tir.analysis.block_access_region import get_block_access_region
from ir.tir.evaluate import evaluate
from ir.tir.expr import IterVar
from ir.tir.stmt import BufferRegion

A = decl_buffer((4096,), "float32", "A")
B = decl_buffer((4096,), "float32", "B")
I32 = decl_buffer((8,), "int32", "I")
OUTER = tir.Var("n")
LOOPS = {tir.Var("i"): 4, tir.Var("j"): 3}
AXIS = tir.Var("v")
LEAVES = st.sampled_from([OUTER, *LOOPS, AXIS, tir.const(5)])


def indices(children: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(
        st.builds(tir.Add, children, children),
        st.builds(tir.Sub, children, children),
        st.builds(lambda a, c: tir.Mul(a, tir.const(c)), children, st.sampled_from([-2, 2, 3, 16])),
        st.builds(lambda a, c: tir.FloorDiv(a, tir.const(c)), children, st.sampled_from([2, 3, 4])),
        st.builds(lambda a, c: tir.FloorMod(a, tir.const(c)), children, st.sampled_from([2, 3, 4])),
        st.builds(tir.Max, children, children),
    )


INDICES = st.recursive(LEAVES, indices, max_leaves=5)
LOCAL_INDICES = st.recursive(st.sampled_from([OUTER, *LOOPS, tir.const(5)]), indices, max_leaves=5)


def in_loops(body: Stmt) -> Stmt:
    for var, extent in reversed(LOOPS.items()):
        body = For(var, 0, extent, ForKind.SERIAL, body)
    return body


def touched(index: Any, binding: Any, outer: int, extent: int = 1) -> set[int]:
    found: set[int] = set()
    for inner in product(*[range(count) for count in LOOPS.values()]):
        environment = {OUTER: outer, **dict(zip(LOOPS, inner))}
        first = int(evaluate(tir.stmt_functor.substitute(index, {AXIS: binding}), environment))
        found.update(range(first, first + extent))
    return found


def held(region: BufferRegion, outer: int) -> range:
    first, extent = (
        int(evaluate(item, {OUTER: outer})) for item in (region.region[0].min, region.region[0].extent)
    )
    return range(first, first + extent)


@given(INDICES, INDICES, LOCAL_INDICES, LOCAL_INDICES, st.sampled_from([1, 3]))
@settings(max_examples=120, deadline=None)
def test_regions_hold_what_is_touched(first, second, binding, plain, extent):
    """One inner block that declares two reads of A, and a plain store to B beside it."""
    inner = Block(
        [IterVar(Range(0, 1 << 20), AXIS, IterVar.DataPar)],
        [BufferRegion(A, [Range.from_min_extent(index, extent)]) for index in (first, second)],
        [],
        "inner",
        tir.Evaluate(tir.const(0)),
    )
    body = seq(
        BlockRealize([binding], tir.const(True), inner), BufferStore(B, tir.const(0.0, "float32"), [plain])
    )
    reads, writes, opaque = get_block_access_region(Block([], [], [], "outer", in_loops(body)))
    assert not opaque and [item.buffer for item in (*reads, *writes)] == [A, B]
    for outer in (0, 7, 30):
        wanted = touched(first, binding, outer, extent) | touched(second, binding, outer, extent)
        span = held(reads[0], outer)
        whole = span == range(A.shape[0].value)
        assert whole or wanted <= set(span)
        span = held(writes[0], outer)
        assert span == range(B.shape[0].value) or touched(plain, binding, outer) <= set(span)


def test_loads_of_one_row_are_one_region():
    i, j = LOOPS
    value = BufferLoad(A, [OUTER * 32 + i * 4 + j]) + BufferLoad(A, [OUTER * 32 + i * 4 + j + 9])
    block = Block([], [], [], "outer", in_loops(BufferStore(B, value, [OUTER * 4 + i])))
    reads, writes, _ = get_block_access_region(block)
    assert str(reads[0]) == str(BufferRegion(A, [Range.from_min_extent(OUTER * 32, 24)]))
    assert str(writes[0]) == str(BufferRegion(B, [Range.from_min_extent(OUTER * 4, 4)]))


def test_known_variables_are_their_values():
    """One access with the variable of a loop around the block that runs once, one without it: one element of each row."""
    once = tir.Var("once")
    value = BufferLoad(A, [OUTER * 32 + once]) + BufferLoad(A, [OUTER * 32])
    block = Block([], [], [], "outer", BufferStore(B, value, [once * 2]))
    reads, writes, _ = get_block_access_region(block, known={once: tir.const(3)})
    assert str(reads[0]) == str(BufferRegion(A, [Range.from_min_extent(OUTER * 32, 4)]))
    assert str(writes[0]) == str(BufferRegion(B, [Range.from_min_extent(tir.const(6), 1)]))
    reads, _, _ = get_block_access_region(block)
    assert "min" in str(reads[0])


def test_what_a_pointer_may_change_is_not_known_around_the_block():
    """The index of A is read from B, whose address is given away."""
    given = tir.Evaluate(tir.call_extern("int32", "fill", tir.address_of(BufferLoad(I32, [0]))))
    load = BufferStore(B, BufferLoad(A, [BufferLoad(I32, [3])]), [0])
    reads, _, opaque = get_block_access_region(Block([], [], [], "outer", seq(given, load)))
    assert [item.buffer for item in opaque] == [I32]
    assert str(reads[0]) == str(BufferRegion(A, [Range.from_min_extent(0, A.shape[0])]))


def test_a_value_that_two_names_are_given_in_turn_touches_what_each_of_them_does():
    """One object under two lets of one variable."""
    x = tir.Var("x")
    load = BufferLoad(A, [x])
    value = tir.Let(x, tir.const(3), load) + tir.Let(x, tir.const(9), load)
    reads, _, _ = get_block_access_region(Block([], [], [], "outer", BufferStore(B, value, [0])))
    assert str(reads[0]) == str(BufferRegion(A, [Range.from_min_extent(3, 7)]))


def test_known_variables_are_their_values_in_what_is_no_sum():
    once = tir.Var("once")
    block = Block(
        [], [], [], "outer", BufferStore(B, tir.const(0.0, "float32"), [tir.max(once * once, OUTER)])
    )
    _, writes, _ = get_block_access_region(block, known={once: tir.const(3)})
    assert "once" not in str(writes[0])


def test_predicates_read() -> None:
    """What the predicate of an inner block, of a load or of a store loads is read."""
    element = BufferRegion(B, [Range.from_min_extent(0, 1)])
    mask = BufferLoad(I32, [0]) > 0
    store = BufferStore(B, BufferLoad(A, [0]), [0])
    bodies = [
        BlockRealize([], mask, Block([], [], [element], "inner", store)),
        BufferStore(B, tir.const(0.0, "float32"), [0], mask),
        BufferStore(B, BufferLoad(A, [0], mask), [0]),
    ]
    for body in bodies:
        reads, _, _ = get_block_access_region(Block([], [], [], "outer", body), {})
        assert I32 in {region.buffer for region in reads}


def test_accesses_that_are_no_sums_are_compared_with_equal_ones_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """The end of a region is made of what is reached once, in the order of the accesses, at a cost of one comparison each."""
    count = [0]

    def counted(a: Any, b: Any) -> bool:
        count[0] += 1
        return expr_deep_equal(a, b)

    monkeypatch.setattr("ir.tir.analysis.block_access_region.expr_deep_equal", counted)
    target = decl_buffer((4096,), "float32", "B")
    index = decl_buffer((64,), "int32", "I")
    order = [*range(40), *range(40)]
    stores = [
        BufferStore(target, BufferLoad(A, [BufferLoad(index, [tir.const(c)])]), [tir.const(c)]) for c in order
    ]
    block = Block([], [], [], "b", seq(*stores))
    reads, writes, _ = get_block_access_region(block)
    assert count[0] <= 4 * len(order)
    (region,) = [item for item in reads if item.buffer is A]
    memory = np.random.default_rng(0).permutation(4096)[:64].astype("int32")
    loads = {id(index): memory}
    low = evaluate_loads(region.region[0].min, loads)
    extent = evaluate_loads(region.region[0].extent, loads)
    assert (low, extent) == (memory[:40].min(), memory[:40].max() - memory[:40].min() + 1)
    assert str(writes[0].region[0]) == "I.Range(0, 40)"


def evaluate_loads(expr: tir.PrimExpr, memory: dict[int, np.ndarray]) -> int:
    """The value of an expression of elements of buffers at constant indices."""
    if isinstance(expr, BufferLoad):
        return int(memory[id(expr.buffer)][expr.indices[0].value])
    if isinstance(expr, tir.IntImm):
        return expr.value
    left, right = evaluate_loads(expr.a, memory), evaluate_loads(expr.b, memory)
    operations = {"Add": left + right, "Sub": left - right, "Min": min(left, right), "Max": max(left, right)}
    return operations[type(expr).__name__]


def test_threads_run_through_their_numbers() -> None:
    """They are known only below the statement that starts them; an attribute of another kind names nothing."""
    thread = tir.Var("x")
    store = BufferStore(A, tir.const(1.0, "float32"), [OUTER * 8 + thread])
    axis = IterVar(None, thread, IterVar.ThreadIndex, "threadIdx.x")
    for key, extent in (("thread_extent", 4), ("virtual_thread", 4), ("pragma_import_c", 1)):
        block = Block([], [], [], "block", tir.AttrStmt(axis, key, tir.const(4), store))
        _, writes, _ = get_block_access_region(block, {})
        (touched,) = writes[0].region
        assert touched.extent.value == extent


def test_an_exchange_of_threads_reads_what_they_give_and_writes_the_results() -> None:
    one, thread = tir.const(1, "uint32"), tir.Var("k")
    call = tir.tvm_thread_allreduce(one, A[thread], tir.const(True), B[OUTER], thread)
    block = Block((), (), (), "B", tir.Evaluate(call))
    reads, writes, opaque = get_block_access_region(block, {})
    assert [str(item) for item in reads] == [str(BufferRegion(A, [Range.from_min_extent(thread, 1)]))]
    assert [str(item) for item in writes] == [str(BufferRegion(B, [Range.from_min_extent(OUTER, 1)]))]
    assert not opaque
