"""VectorizeLoop: vectors, pieces of odd lengths, masks, and what has to stay a loop."""

import numpy as np
import pytest

from ir import IRModule, tir
from ir import dtype as dt
from ir.node import post_order_visit
from ir.script import from_source
from ir.script import tir as T
from ir.tir.interpreter import run
from ir.transform import PassContext


def test_copy(check):
    @T.prim_func
    def before(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
        for i in range(4):
            for j in T.vectorized(16):
                B[i * 16 + j] = A[i * 16 + j] + T.float32(1)

    @T.prim_func
    def after(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
        for i in range(4):
            B[i * 16 : i * 16 + 16] = A[i * 16 : i * 16 + 16] + T.Broadcast(T.float32(1), 16)

    check(tir.transform.VectorizeLoop(), before, after)


def nodes(func):
    found = []
    post_order_visit(func.body, found.append)
    return found


def vectorized(extent, statement):
    """``for j in vectorized(extent): statement`` over buffers A, B of 256 elements."""
    source = f"""
@T.prim_func
def main(A: T.Buffer((256,), "float32"), B: T.Buffer((256,), "float32")):
    for j in T.vectorized({extent}):
{statement}
"""
    from ir.script import from_source

    return from_source(source)


def test_whole_vectors_know_the_range_of_their_loop(apply):
    func = vectorized(48, "        B[j // 48 * 64 + j % 48] = A[j // 48 + j]")
    after = apply(tir.transform.VectorizeLoop(), func)
    text = after.script()
    assert "B[j_o * 16:j_o * 16 + 16] = A[j_o * 16:j_o * 16 + 16]" in text


def test_vectors_of_long_chains_come_in_pairs(apply):
    """Beside each other they keep the processor busy; what is left over at the end is narrower."""
    func = vectorized(108, "        B[j] = T.exp(A[j])")
    text = apply(tir.transform.VectorizeLoop(), func).script()
    assert "B[j_o * 32:j_o * 32 + 32]" in text and "B[96:104]" in text and "B[104:108]" in text
    short = apply(tir.transform.VectorizeLoop(), vectorized(108, "        B[j] = T.sqrt(A[j])"))
    assert "B[j_o * 16:j_o * 16 + 16]" in short.script()


@pytest.mark.parametrize("extent", [1, 2, 3, 7, 14, 16, 17, 48, 100, 128, 129])
def test_every_extent(apply, extent):
    func = vectorized(extent, "        B[j] = A[j] * T.float32(2)")
    after = apply(tir.transform.VectorizeLoop(), func)
    assert "vectorized" not in after.script()


@pytest.mark.parametrize(
    "statement",
    [
        "        B[j * 2] = A[255 - j]",
        "        B[j] = A[j // 4]",
        "        B[j] = A[j % 3]",
        "        B[j] = T.if_then_else(j < 5, A[j], T.float32(3))",
        "        B[j] = T.if_then_else(3 <= j and j < 9, A[j - 3], T.float32(0))",
        "        if j < 9:\n            B[j] = A[j]",
        "        if j < 9:\n            B[j] = A[j]\n        else:\n            B[j] = T.float32(1)",
        "        B[j] = T.Cast('float32', j) + T.max(A[j], T.float32(0))",
        "        for k in range(3):\n            B[j + k * 16] = A[j] + T.Cast('float32', k)",
        "        B[j] = T.Select(A[j] > T.float32(0), A[j], T.float32(0) - A[j])",
        "        B[j] = T.Select(A[3] > T.float32(0), A[j], T.float32(7))",
        "        B[j] = T.Select(A[j] > T.float32(0), T.float32(5), A[3])",
        "        x: T.float32 = A[j] * T.float32(2)\n        B[j] = x + x",
        "        t = T.allocate([1], 'float32', 'local')\n        t_1 = T.Buffer((1,), data=t)\n"
        "        t_1[0] = A[j]\n        B[j] = t_1[0]",
        "        t = T.allocate([2], 'float32', 'local')\n        t_1 = T.Buffer((2,), data=t)\n"
        "        for k in range(2):\n            t_1[k] = A[j * 2 + k]\n        B[j] = t_1[0] - t_1[1]",
    ],
)
def test_bodies(apply, statement):
    after = apply(tir.transform.VectorizeLoop(), vectorized(16, statement))
    text = after.script()
    assert "vectorized" not in text
    assert "range(16)" not in text  # a vector form exists


@pytest.mark.parametrize(
    "statement, has_meaning",
    [
        # every lane adds to one place: undefined, and yet nothing is lost
        ("        B[0] = B[0] + A[j]", False),
        ("        for k in range(j):\n            B[j] = A[k]", True),
    ],
)
def test_what_has_no_vector_form_runs_serially(apply, statement, has_meaning):
    after = apply(tir.transform.VectorizeLoop(), vectorized(16, statement), same_results=has_meaning)
    assert "range(16)" in after.script()


def test_symbolic_extent_is_masked():
    @T.prim_func
    def before(a: T.handle, b: T.handle, n: T.int32):
        A = T.match_buffer(a, (n,), "float32")
        B = T.match_buffer(b, (n,), "float32")
        for j in T.vectorized(n):
            B[j] = A[j] + T.float32(1)

    import numpy as np

    from ir.tir.interpreter import run

    after = tir.transform.VectorizeLoop()(IRModule({"main": before}))["main"]
    assert "vectorized" not in after.script()
    for n in (1, 15, 16, 33):
        x, y = np.arange(n, dtype="float32"), np.zeros(n, "float32")
        run(after, x, y, n)
        np.testing.assert_array_equal(y, x + 1)


def test_can_be_switched_off(apply):
    func = vectorized(16, "        B[j] = A[j]")
    assert "range(16)" in apply(tir.transform.VectorizeLoop(enable_vectorize=False), func).script()
    with PassContext(config={"tir.disable_vectorize": True}):
        assert "range(16)" in apply(tir.transform.VectorizeLoop(), func).script()


@pytest.mark.parametrize(("lanes", "n"), [(16, 13), (48, 45)])
def test_a_mask_on_registers_is_a_blend(apply, lanes, n):
    @T.prim_func
    def before(A: T.Buffer((3, n), "float32"), B: T.Buffer((3, n), "float32")):
        for i in range(3):
            t = T.allocate([lanes], "float32", "local")
            t_1 = T.Buffer((lanes,), data=t, scope="local")
            for j in T.vectorized(lanes):
                t_1[j] = T.float32(1)
            for j in T.vectorized(lanes):
                if j < n:
                    t_1[j] = t_1[j] + A[i, j]
            for j in T.vectorized(lanes):
                if j < n:
                    B[i, j] = t_1[j]

    flat = apply(tir.transform.FlattenBuffer(), before)
    after = apply(tir.transform.VectorizeLoop(), flat)
    masked = []
    post_order_visit(
        after.body,
        lambda n: (
            masked.append((type(n).__name__, n.buffer.name))
            if isinstance(n, tir.BufferLoad | tir.BufferStore) and n.predicate is not None
            else None
        ),
    )
    assert sorted(masked) == [("BufferLoad", "A"), ("BufferStore", "B")]


def test_an_index_that_every_lane_keeps_for_itself(apply):
    @T.prim_func
    def before(A: T.Buffer((16,), "float32"), B: T.Buffer((16,), "float32")):
        for i in T.vectorized(8):
            place_data = T.allocate([1], "int32", "global")
            place = T.Buffer((1,), "int32", data=place_data)
            own_data = T.allocate([8], "float32", "global")
            own = T.Buffer((8,), "float32", data=own_data)
            place[0] = 7 - i
            own[7 - i] = A[i]
            B[i] = own[place[0]] + A[place[0] + 1]

    after = apply(tir.transform.VectorizeLoop(), before)
    assert not any(isinstance(node, tir.For) for node in nodes(after))


@pytest.mark.parametrize("dtype", ["uint8", "int8", "uint16", "int64"])
def test_data_that_is_an_index_does_not_wrap_among_the_copies_of_all_lanes(apply, dtype: str) -> None:
    before = from_source(f"""@T.prim_func
def main(A: T.Buffer((128,), "float32"), I: T.Buffer((4,), "{dtype}"), B: T.Buffer((4,), "float32")):
    for i in T.vectorized(4):
        own_data = T.allocate([128], "float32", "global")
        own = T.Buffer((128,), "float32", data=own_data)
        for k in range(128):
            own[k] = A[k]
        B[i] = own[I[i]]
""")
    after = apply(tir.transform.VectorizeLoop(), before, same_results=False)  # random numbers are no places
    given, places = np.arange(128, dtype="float32"), np.array([100, 3, 64, 127], dt.to_numpy(dtype))
    found = np.zeros(4, "float32")
    run(after, given, places, found)
    np.testing.assert_array_equal(found, given[places.astype("int64")])
    assert all(item.kind is not tir.ForKind.VECTORIZED for item in nodes(after) if isinstance(item, tir.For))


def test_an_index_of_two_dtypes_is_contiguous_all_the_same(apply):
    func = from_source("""
@T.prim_func
def main(A: T.Buffer((4096,), "float32"), I: T.Buffer((4,), "int64"), B: T.Buffer((4, 64), "float32")):
    for i in range(4):
        for j in T.vectorized(8):
            B[i, j] = A[I[i] * T.int64(64) + T.Cast("int64", i * 8 + j)]
""")
    after = apply(tir.transform.VectorizeLoop(), func)
    loads = [node for node in nodes(after) if isinstance(node, tir.BufferLoad) and node.buffer.name == "A"]
    assert [type(load.indices[0]) for load in loads] == [tir.Ramp]
    arrays = [
        np.arange(4096, dtype="float32"),
        np.array([3, 0, 2, 1], "int64"),
        np.zeros((4, 64), "float32"),
    ]
    run(func, *arrays)
    expected = arrays[2].copy()
    arrays[2][:] = 0
    run(after, *arrays)
    np.testing.assert_array_equal(arrays[2], expected)


def test_a_product_with_data_wraps_before_it_is_an_index(apply):
    """Taken in 32 bits it is the number of a place; neighbours are no neighbours."""
    func = from_source("""
@T.prim_func
def main(A: T.Buffer((64,), "float32"), D: T.Buffer((1,), "int32"), B: T.Buffer((8,), "float32")):
    for j in T.vectorized(8):
        B[j] = A[T.Cast("int64", (D[0] * j) % 64)]
""")
    results = []
    for each in (func, apply(tir.transform.VectorizeLoop(), func)):
        arrays = [np.arange(64, dtype="float32"), np.array([(1 << 30) + 5], "int32"), np.zeros(8, "float32")]
        run(each, *arrays)
        results.append(arrays[2])
    wrapped = (np.arange(8, dtype="int32") * np.int32((1 << 30) + 5)) % 64
    np.testing.assert_array_equal(results[0], wrapped)
    np.testing.assert_array_equal(results[1], wrapped)
