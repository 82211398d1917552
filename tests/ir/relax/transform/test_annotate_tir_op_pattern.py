"""AnnotateTIROpPattern: what kind of kernel it is, read from its loops."""

from __future__ import annotations

import pytest

from ir import relax, te
from ir.relax import transform
from ir.relax.analysis import get_op_pattern
from ir.relax.op.declaration import OpPatternKind
from ir.relax.transform.annotate_tir_op_pattern import op_pattern_kind
from ir.script import ir as I
from ir.script import relax as R
from ir.tir import PrimFunc, call_extern
from ir.tir.intrinsic.declaration import call as tir_call


@pytest.mark.parametrize(
    ("build", "kind"),
    [
        (lambda x, w: relax.op.exp(x), OpPatternKind.kElemWise),
        (lambda x, w: relax.op.permute_dims(x, [1, 0]), OpPatternKind.kInjective),
        (lambda x, w: relax.op.broadcast_to(x, (3, 8, 8)), OpPatternKind.kBroadcast),
        (lambda x, w: relax.op.sum(x, 1), OpPatternKind.kCommReduce),
        (lambda x, w: relax.op.matmul(x, w), OpPatternKind.kOutEWiseFusable),
        (lambda x, w: relax.op.nn.softmax(x), OpPatternKind.kOutEWiseFusable),
    ],
)
def test_op_patterns(build, kind):
    bb = relax.BlockBuilder()
    x, w = (relax.Var(name, relax.TensorStructInfo((8, 8))) for name in "xw")
    with bb.function("main", [x, w]):
        bb.emit_func_output(bb.emit(build(x, w)))
    mod = transform.AnnotateTIROpPattern()(transform.LegalizeOps()(bb.finalize()))
    (kernel,) = (func for func in mod.functions.values() if isinstance(func, PrimFunc))
    assert kernel.attrs.get_int("op_pattern") == kind


@pytest.mark.parametrize(
    ("call", "kind"),
    [
        (lambda a, i: te.exp(a[i]), OpPatternKind.kElemWise),
        (lambda a, i: call_extern("float32", "f", a[i]), OpPatternKind.kOpaque),
        (lambda a, i: tir_call("lookup_param", "p").astype("float32") + a[i], OpPatternKind.kOpaque),
    ],
)
def test_a_kernel_that_calls_what_has_effects_is_opaque(call, kind):
    a = te.placeholder((8,), "float32", "A")
    kernel = te.create_prim_func([a, te.compute((8,), lambda i: call(a, i), name="B")])
    assert op_pattern_kind(kernel) == kind


def test_kinds_of_operators_and_kernels():
    assert get_op_pattern("relax.add") == OpPatternKind.kBroadcast
    assert get_op_pattern("relax.call_tir") == OpPatternKind.kOpaque

    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((4,), "float32")):
            y = R.exp(x)
            return y

    legal = transform.LegalizeOps()(Before)
    assert get_op_pattern(Before["main"].body.blocks[0].bindings[0].value) == OpPatternKind.kElemWise
    assert get_op_pattern(legal["tir_exp"]) == OpPatternKind.kElemWise
    assert get_op_pattern(legal["tir_exp"].with_attr("op_pattern", 8)) == OpPatternKind.kOpaque
