"""Intrinsics of lowered programs: what they build is what the text form reads and writes."""

from collections.abc import Callable

import pytest

import ir
from ir import tir
from ir.error import IRError
from ir.script import from_source
from ir.tir import Var
from ir.tir.intrinsic.vectors import dot_accumulate

h, x, v = Var("h", "handle"), Var("x", "int32"), Var("v", "float32x4")

CALLS = [
    (tir.tvm_tuple(x, 1), "T.tvm_tuple(x, 1)", "handle"),
    (tir.tvm_struct_set(h, 0, 1, x), "T.tvm_struct_set(h, 0, 1, x)", "int32"),
    (tir.tvm_stack_alloca("arg_value", 2), 'T.tvm_stack_alloca("arg_value", 2)', "handle"),
    (tir.tvm_stack_make_shape(1, 2), "T.tvm_stack_make_shape(1, 2)", "handle"),
    (tir.lookup_param("p0"), 'T.lookup_param("p0")', "handle"),
    (tir.vectorlow("float32x2", v), 'T.vectorlow("float32x2", v)', "float32x2"),
    (tir.vectorcombine("float32x8", v, v), 'T.vectorcombine("float32x8", v, v)', "float32x8"),
    (tir.get_active_lane_mask("boolx4", x, 8), 'T.get_active_lane_mask("boolx4", x, 8)', "boolx4"),
    (tir.ignore_loop_partition(x < 3), "T.ignore_loop_partition(x < 3)", "bool"),
    (tir.handle_add_byte_offset(h, x), "T.handle_add_byte_offset(h, x)", "handle"),
    (tir.call_packed_lowered("f", x), 'T.call_packed_lowered("f", x)', "int32"),
    (tir.start_profile_intrinsic(3), "T.start_profile_intrinsic(3)", "handle"),
    (tir.TVMBackendFreeWorkspace(1, 0, h), "T.TVMBackendFreeWorkspace(1, 0, h)", "int32"),
    (tir.get_vscale_expr("int8"), "16 * T.vscale()", "int32"),
]


@pytest.mark.parametrize(("call", "text", "dtype"), CALLS, ids=lambda value: str(value)[:40])
def test_text_and_dtype(call: tir.PrimExpr, text: str, dtype: str) -> None:
    assert str(call) == text and call.dtype == dtype
    program = tir.PrimFunc([h, x, v], tir.Evaluate(call))
    ir.assert_structural_equal(from_source(program.script()), program)


SUMS = {dtype: Var("s", dtype) for dtype in ("int32x4", "float32x4", "int16x4", "int32")}


@pytest.mark.parametrize(
    ("sums", "first", "second", "message"),
    [
        ("int32x4", "int8x4", "int16x16", "no form for products of int8 and int16 that are added to int32"),
        ("float32x4", "int8x4", "int8x16", "no form for products of int8 and int8 that are added to float32"),
        ("int16x4", "int8x4", "int8x16", "no form"),
        (
            "int32x4",
            "int8x4",
            "int8x8",
            "takes 4 lanes of int8, or 16 for a group of each lane, and 16 lanes",
        ),
        ("int32x4", "int8x8", "int8x16", "got int8x8 and int8x16"),
        ("int32x4", "int8", "int8x16", "got int8 and int8x16"),
        ("int32", "int8x8", "int8x4", "got int8x8 and int8x4"),
    ],
)
def test_groups_that_do_not_fit(sums: str, first: str, second: str, message: str) -> None:
    with pytest.raises(IRError, match=message):
        dot_accumulate(SUMS[sums], Var("a", first), Var("b", second))


def test_the_result_of_groups_is_of_the_dtype_of_the_sums() -> None:
    call = dot_accumulate(SUMS["int32x4"], Var("a", "int8x4"), Var("b", "uint8x16"))
    assert call.dtype == "int32x4"
    with pytest.raises(IRError, match="dot_accumulate to int32x4 gives that dtype, not int64x4"):
        tir.call_intrin("int64x4", "tir.dot_accumulate", *call.args)


def test_statement_sequences() -> None:
    one, two = tir.Evaluate(x), tir.Evaluate(x + 1)
    joined = tir.stmt_seq(one, tir.stmt_seq(two, x + 2))
    assert [str(item.value) for item in tir.stmt_list(joined)] == ["x", "x + 1", "x + 2"]


@pytest.mark.meaning("reinterpret")
@pytest.mark.parametrize("made", [
    lambda: tir.reinterpret("int64", x), lambda: tir.reinterpret("float16", x), lambda: tir.reinterpret("int32", v),
    lambda: tir.call_intrin("int8", "tir.reinterpret", x), lambda: tir.reinterpret("bool", x),
    lambda: from_source('@T.prim_func\ndef main(x: T.int32):\n    T.evaluate(T.reinterpret("int64", x))\n'),
    lambda: from_source('@T.prim_func\ndef main(x: T.int32):\n    T.evaluate(T.call_intrin("int64", "tir.reinterpret", x))\n'),
])  # fmt: skip
def test_bits_are_not_read_as_a_type_of_another_size(made: Callable[[], object]) -> None:
    with pytest.raises(
        IRError, match=r"reinterpret needs dtypes of one size, got \w+ of \d+ bits and \w+ of \d+; convert"
    ):
        made()


def test_bits_are_read_as_a_type_of_the_same_size() -> None:
    assert tir.reinterpret("float32", x).dtype == "float32"
    assert tir.reinterpret("int8x16", v).dtype == "int8x16"
    assert tir.reinterpret("bool", Var("byte", "uint8")).dtype == "bool"
