"""TransformMmaBufferLayout: matrices of a warp become registers; who accesses what another thread holds is refused."""

import re

import numpy as np
import pytest

from ir import IRModule, assert_structural_equal, tir
from ir.error import IRValueError
from ir.script import from_source
from ir.script import tir as T
from ir.tir.transform.transform_mma_buffer_layout import _LAYOUTS
from ir.transform import PassContext

PASS = tir.transform.TransformMmaBufferLayout()


def transformed(func):
    return PASS.transform_function(func, IRModule({"main": func}), PassContext.current())


def test_an_accumulator_becomes_registers():
    @T.prim_func
    def before(D: T.Buffer((32, 16), "float32")):
        for tx in T.thread_binding(32, thread="threadIdx.x"):
            with T.block(""):
                T.reads()
                T.writes(D[0:32, 0:16])
                C = T.alloc_buffer((32, 16), "float32", scope="m16n8k8.matrixC")
                for i, j, r, v in T.grid(2, 2, 2, 2):
                    with T.block("fill"):
                        T.reads()
                        T.writes(C[i * 16 : i * 16 + 16, j * 8 : j * 8 + 8])
                        C[i * 16 + r * 8 + tx // 4, j * 8 + tx % 4 * 2 + v] = T.float32(2)
                for i, j, r, v in T.grid(2, 2, 2, 2):
                    D[i * 16 + r * 8 + tx // 4, j * 8 + tx % 4 * 2 + v] = C[
                        i * 16 + r * 8 + tx // 4, j * 8 + tx % 4 * 2 + v
                    ]

    @T.prim_func
    def after(D: T.Buffer((32, 16), "float32")):
        for tx in T.thread_binding(32, thread="threadIdx.x"):
            with T.block(""):
                T.reads()
                T.writes(D[0:32, 0:16])
                C = T.alloc_buffer((2, 2, 2, 2), "float32", scope="local")
                for i, j, r, v in T.grid(2, 2, 2, 2):
                    with T.block("fill"):
                        T.reads()
                        T.writes(C[i, j, 0:2, 0:2])
                        C[i, j, r, v] = T.float32(2)
                for i, j, r, v in T.grid(2, 2, 2, 2):
                    D[i * 16 + r * 8 + tx // 4, j * 8 + tx % 4 * 2 + v] = C[i, j, r, v]

    assert_structural_equal(
        transformed(before).without_attr("global_symbol"), after.without_attr("global_symbol"), True
    )


ELEMENTS = {
    "matrixA": ("(2, 64, 16)", "[z, i * 32 + r * 8 + tx // 4, j * 8 + tx % 4 * 2 + v]"),
    "matrixB": ("(2, 16, 64)", "[z, i * 8 + tx % 4 * 2 + v, j * 32 + r * 8 + tx // 4]"),
    "matrixC": ("(2, 32, 16)", "[z, i * 16 + r % 2 * 8 + tx // 4, j * 8 + tx % 4 * 2 + v]"),
}


def owners(scope):
    """A kernel in which each thread writes and reads its elements."""
    shape, element = ELEMENTS[scope]
    return from_source(f"""
from ir.script import tir as T

@T.prim_func
def main(A: T.Buffer({shape}, "float32"), D: T.Buffer({shape}, "float32")):
    for tx in T.thread_binding(32, thread="threadIdx.x"):
        with T.block(""):
            M = T.alloc_buffer({shape}, "float32", scope="m16n8k8.{scope}")
            for z, i, j, r, v in T.grid(2, 2, 2, 4, 2):
                M{element} = A{element} * T.float32(2)
            for z, i, j, r, v in T.grid(2, 2, 2, 4, 2):
                D{element} = M{element} + T.float32(1)
""")


@pytest.mark.parametrize("scope", list(ELEMENTS))
def test_each_thread_finds_what_it_wrote(apply, scope):
    after = apply(PASS, owners(scope))

    assert 'scope="local"' in after.script()
    assert "tx" not in re.search(r" M\[(.*?)\] =", after.script()).group(1)


@pytest.mark.parametrize("scope", list(_LAYOUTS))
def test_every_element_has_one_register_of_one_thread(scope):
    layout = _LAYOUTS[scope]
    rows, columns = np.indices(layout.tile)
    places = np.stack(
        [
            np.broadcast_to(item, layout.tile)
            for item in (layout.lane(rows, columns), *layout.place(rows, columns))
        ]
    )
    found = np.unique(places.reshape(3, -1), axis=1)

    assert found.shape[1] == rows.size
    assert tuple(found.max(axis=1) + 1) == (32, *layout.registers)


def test_offsets_behind_addresses_are_those_of_registers():
    @T.prim_func
    def before(S: T.Buffer((64, 64), "float16", scope="shared")):
        for tx in T.thread_binding(32, thread="threadIdx.x"):
            for i, j in T.grid(2, 2):
                with T.block(""):
                    T.reads(S[0:64, 0:64])
                    T.writes()
                    A = T.alloc_buffer((64, 16), "float16", scope="m16n8k8.matrixA")
                    B = T.alloc_buffer((16, 64), "float16", scope="m16n8k8.matrixB")
                    C = T.alloc_buffer((64, 64), "float32", scope="m16n8k8.matrixC")
                    T.evaluate(
                        T.ptx_ldmatrix(
                            "float16", False, 4, ".b16", A.data, i * 512 + j * 8, S.access_ptr("r"), tx * 64
                        )
                    )
                    T.evaluate(
                        T.ptx_mma(
                            "float32", "m16n8k8", "row", "col", "fp16", "fp16", "fp32",
                            A.data, i * 512 + j * 8 + 256, B.data, j * 512 + i * 32 + 8,
                            C.data, i * 1024 + j * 8, False,
                        )
                    )  # fmt: skip
                    T.evaluate(
                        T.call_extern("int32", "look", C.access_ptr("r", offset=i * 1024, extent=1024))
                    )

    text = transformed(before).script()
    assert 'T.ptx_ldmatrix("float16", T.bool(False), 4, ".b16", A.data, i * 16 + j * 8, ' in text
    assert "A.data, i * 16 + j * 8 + 4, B.data, j * 16 + i * 8 + 2, C.data, i * 32 + j * 4" in text
    assert "C.data, i * 32, 32, 1)" in text


def kernel(shape="(32, 16)", access="C[tx // 4, tx % 4 * 2]", scope="matrixC", use="0"):
    return from_source(f"""
from ir.script import tir as T

@T.prim_func
def main(D: T.Buffer((64,), "float32"), P: T.Buffer((1,), "int32")):
    for tx in T.thread_binding(32, thread="threadIdx.x"):
        for k in range(2):
            with T.block(""):
                T.reads(P[0])
                T.writes(D[tx])
                C = T.alloc_buffer({shape}, "float32", scope="m16n8k8.{scope}")
                {access} = T.float32(0)
                T.evaluate({use})
                D[tx] = T.float32(0)
""")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"shape": "(24, 16)"},
            r"buffer C of scope 'm16n8k8.matrixC' has shape \[24, 16\]; .* multiples of 16 and 8",
        ),
        ({"shape": "(32, 16)", "scope": "matrixB"}, "multiples of 8 and 32"),
        ({"access": "C[tx, 0]"}, r"thread 1 accesses C\[tx, 0\], which thread 4 holds"),
        ({"access": "C[tx % 4 * 2, tx // 4]"}, "thread 1 accesses .* which thread 8 holds"),
        (
            {"use": 'T.call_extern("int32", "look", C.data)'},
            "the address of matrix C .* is used other than with an offset",
        ),
        (
            {"access": "C[tx // 4, T.Ramp(tx % 4 * 2, 1, 2)]"},
            "run TransformMmaBufferLayout before VectorizeLoop",
        ),
    ],
)
def test_what_no_thread_holds_so_is_refused(options, message):
    with pytest.raises(IRValueError, match=message):
        transformed(kernel(**options) if "Ramp" not in str(options) else vectors(kernel(), options["access"]))


def vectors(func, access):
    text = func.script().replace(
        "C[tx // 4, tx % 4 * 2] = T.float32(0)", f"{access} = T.Broadcast(T.float32(0), 2)"
    )
    return from_source(text)


def test_elements_that_data_names_are_the_program_s_business():
    assert "C[0, 0, 0, 0]" not in transformed(kernel(access="C[P[0], 0]")).script()


def test_matrices_are_no_parameters():
    @T.prim_func
    def before(C: T.Buffer((32, 16), "float32", scope="m16n8k8.matrixC")):
        C[0, 0] = T.float32(0)

    with pytest.raises(
        IRValueError, match="parameter C has scope 'm16n8k8.matrixC'; matrices of a warp are allocated"
    ):
        transformed(before)


def test_a_function_without_matrices_is_the_same_object():
    @T.prim_func
    def plain(A: T.Buffer((16,), "float32")):
        for i in range(16):
            A[i] = T.float32(0)

    assert transformed(plain) is plain
