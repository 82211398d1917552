"""Which parameters of a kernel it writes to."""

from __future__ import annotations

from ir import tir
from ir.script import tir as T
from ir.tir.analysis.written_params import stored_params, written_params


@T.prim_func
def copy(a: T.Buffer((4,)), b: T.Buffer((4,)), n: T.int32):
    for i in range(4):
        b[i] = a[i]


@T.prim_func
def through_a_matched_region(a: T.handle, b: T.handle):
    A, B = T.match_buffer(a, (4, 4)), T.match_buffer(b, (4, 4))
    for i in range(4):
        with T.block("outer"):
            vi = T.axis.spatial(4, i)
            T.reads(B[vi, 0:4])
            T.writes(A[vi, 0:4])
            row = T.match_buffer(A[vi, 0:4], (4,), offset_factor=1)
            for j in range(4):
                with T.block("inner"):
                    vj = T.axis.spatial(4, j)
                    row[vj] = B[vi, vj]


@T.prim_func
def calls_something(a: T.Buffer((4,)), b: T.Buffer((4,)), n: T.int32):
    T.evaluate(T.call_extern("int32", "f", a.data))


@T.prim_func
def own_memory(a: T.Buffer((4,)), b: T.Buffer((4,))):
    c = T.alloc_buffer((4,))
    for i in range(4):
        c[i] = a[i]
    for i in range(4):
        b[i] = b[i] + c[i]


def test_stores() -> None:
    assert written_params(copy) == (1,)
    assert written_params(own_memory) == (1,)


def test_a_matched_region_is_memory_of_its_source() -> None:
    assert written_params(through_a_matched_region) == (0,)


def test_a_call_with_effects_may_write_everything() -> None:
    assert written_params(calls_something) == (0, 1)


def test_what_is_certainly_stored_to() -> None:
    assert stored_params(copy) == (1,)
    assert stored_params(through_a_matched_region) == (0,)
    assert stored_params(calls_something) == ()  # who knows what it writes
    assert stored_params(own_memory) == written_params(own_memory)


def test_what_is_shared_is_looked_at_once() -> None:
    A = tir.decl_buffer((4,), "float32", "A")
    value: tir.PrimExpr = A[0]
    for _ in range(200):
        value = value * value
    found = stored_params(tir.PrimFunc([A], tir.BufferStore(A, value, [0])))
    assert found == (0,)


def test_intrinsics_write_where_they_are_given_an_address() -> None:
    @T.prim_func
    def product(A: T.Buffer((16, 16), "float16"), B: T.Buffer((16, 16), "float16"), C: T.Buffer((16, 16))):
        left = T.alloc_buffer((16, 16), "float16", scope="wmma.matrix_a")
        sums = T.alloc_buffer((16, 16), scope="wmma.accumulator")
        with T.block("product"):
            T.reads(A[0:16, 0:16])
            T.writes(C[0:16, 0:16])
            source = T.match_buffer(A[0:16, 0:16], (16, 16), "float16", offset_factor=16)
            target = T.match_buffer(C[0:16, 0:16], (16, 16), offset_factor=16)
            T.tvm_storage_sync("shared")
            T.tvm_load_matrix_sync(left.data, 16, 16, 16, 0, source.access_ptr("r"), 16, "row_major")
            T.tvm_store_matrix_sync(sums.data, 16, 16, 16, 0, target.access_ptr("w"), 16, "row_major")

    assert written_params(product) == (2,)
    assert stored_params(product) == ()


def test_a_tensor_map_is_read_and_an_address_with_a_name_is_what_it_leads_into() -> None:
    @T.prim_func
    def copies(A: T.Buffer((64, 64), "float16"), B: T.Buffer((64,)), C: T.Buffer((64,)), k: T.int32):
        S = T.alloc_buffer((64, 64), "float16", scope="shared")
        tensor: T.handle("uint8", "tensor_map") = T.tensor_map_encode_tiled(
            A.data, "float16", 128, 64, 64, 64, 1, 64, 64
        )
        T.ptx_cp_async_bulk_tensor("float16", S.data, 0, tensor, 0, 0, 0)
        place: T.handle("float32") = T.address_of(C[4])
        T.evaluate(T.atomic_add("float32", place, B[k]))

    assert written_params(copies) == (2,)


def test_an_address_that_comes_from_somewhere_may_be_any() -> None:
    @T.prim_func
    def unknown(A: T.Buffer((4,)), B: T.Buffer((4,))):
        place: T.handle("float32") = T.call_pure_extern("handle", "somewhere")
        T.evaluate(T.atomic_add("float32", place, A[0]))

    @T.prim_func
    def at_once(A: T.Buffer((4,)), B: T.Buffer((4,))):
        T.evaluate(T.atomic_add("float32", T.call_pure_extern("handle", "somewhere"), A[0]))

    assert written_params(unknown) == written_params(at_once) == (0, 1)
