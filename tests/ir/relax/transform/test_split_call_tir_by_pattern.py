"""Kernels whose first operators match patterns are split between a library and the rest."""

from __future__ import annotations

import pytest

from ir.error import IRTypeError, IRValueError
from ir.relax import transform
from ir.relax.analysis import well_formed
from ir.script import ir as I
from ir.script import relax as R
from ir.script import tir as T
from ir.structural import assert_structural_equal


@I.ir_module
class Before:
    @T.prim_func(private=True)
    def kernel(
        A: T.Buffer((T.int64(8), T.int64(16)), "float32"),
        B: T.Buffer((T.int64(8), T.int64(16)), "float32"),
        C: T.Buffer((T.int64(8), T.int64(16)), "float32"),
    ):
        D = T.alloc_buffer((T.int64(8), T.int64(16)))
        for i, j in T.grid(T.int64(8), T.int64(16)):
            with T.block("sum"):
                vi, vj = T.axis.remap("SS", [i, j])
                D[vi, vj] = A[vi, vj] + B[vi, vj]
        for i, j in T.grid(T.int64(8), T.int64(16)):
            with T.block("exp"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = T.exp(D[vi, vj])

    @R.function
    def main(x: R.Tensor((8, 16), "float32"), y: R.Tensor((8, 16), "float32")):
        cls = Before
        with R.dataflow():
            z = R.call_tir(cls.kernel, (x, y), out_sinfo=R.Tensor((8, 16), "float32"))
            R.output(z)
        return z


@T.prim_func
def addition(a: T.handle, b: T.handle, c: T.handle):
    m = T.int64()
    n = T.int64()
    A = T.match_buffer(a, (m, n))
    B = T.match_buffer(b, (m, n))
    C = T.match_buffer(c, (m, n))
    for i, j in T.grid(m, n):
        with T.block("add"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = A[vi, vj] + B[vi, vj]


@T.prim_func
def exponential(a: T.handle, c: T.handle):
    m = T.int64()
    n = T.int64()
    A = T.match_buffer(a, (m, n))
    C = T.match_buffer(c, (m, n))
    for i, j in T.grid(m, n):
        with T.block("exp"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = T.exp(A[vi, vj])


def test_the_rest_stays_a_kernel():
    seen = []

    def fcodegen(matches):
        seen.extend(matches)
        return ["void {global_symbol}() {}", 1, matches[0].matched_buffers]

    after = transform.SplitCallTIRByPattern([addition], fcodegen)(Before)
    (match,) = seen
    assert match.pattern is addition
    assert [value.value for value in match.symbol_values] == [8, 16]
    assert [buffer.name for buffer in match.matched_buffers] == ["A", "B", "D"]

    @I.ir_module
    class Expected:
        @T.prim_func(private=True)
        def kernel_rest(
            D: T.Buffer((T.int64(8), T.int64(16)), "float32"),
            C: T.Buffer((T.int64(8), T.int64(16)), "float32"),
        ):
            for i, j in T.grid(T.int64(8), T.int64(16)):
                with T.block("exp"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    C[vi, vj] = T.exp(D[vi, vj])

        @R.function
        def main(x: R.Tensor((8, 16), "float32"), y: R.Tensor((8, 16), "float32")):
            cls = Expected
            with R.dataflow():
                lv = R.call_dps_packed("kernel_library", (x, y), out_sinfo=R.Tensor((8, 16), "float32"))
                z = R.call_tir(cls.kernel_rest, (lv,), out_sinfo=R.Tensor((8, 16), "float32"))
                R.output(z)
            return z

    assert well_formed(after)
    assert_structural_equal(after["kernel_rest"], Expected["kernel_rest"])
    library = after["main"].body.blocks[0].bindings[0].value.args[0]
    assert library.global_symbol == "kernel_library"
    assert library.attrs["c_source"] == "void kernel_library() {}"
    assert [binding.value.op.name for binding in after["main"].body.blocks[0].bindings] == [
        "relax.call_dps_packed",
        "relax.call_tir",
    ]


def test_patterns_follow_each_other():
    def fcodegen(matches):
        assert [match.pattern for match in matches] == [addition, exponential]
        last = matches[1].matched_buffers[-1]
        return ["code", 2, [*matches[0].matched_buffers[:2], last]]

    after = transform.SplitCallTIRByPattern([addition, exponential], fcodegen)(Before)
    (binding,) = after["main"].body.blocks[0].bindings
    assert binding.value.op.name == "relax.call_dps_packed"
    assert [var.name_hint for var in after.functions] == ["main"]


def test_what_does_not_match_or_is_declined_stays():
    assert transform.SplitCallTIRByPattern([exponential], lambda matches: 1 / 0)(Before) is Before
    assert transform.SplitCallTIRByPattern([addition], lambda matches: [])(Before) is Before


def test_wrong_answers_and_patterns_are_named():
    with pytest.raises(IRValueError, match="covers 3 of 1 matches"):
        transform.SplitCallTIRByPattern([addition], lambda m: ["", 3, []])(Before)
    with pytest.raises(IRValueError, match="got 2 values"):
        transform.SplitCallTIRByPattern([addition], lambda m: ["", 1])(Before)
    with pytest.raises(IRTypeError, match="must be PrimFuncs"):
        transform.SplitCallTIRByPattern([Before["main"]], lambda m: [])
