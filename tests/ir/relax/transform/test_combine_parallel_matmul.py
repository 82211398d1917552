"""CombineParallelMatmul: products with one left operand become one."""

from __future__ import annotations

from ir.relax import transform
from ir.script import from_source
from ir.script import ir as I
from ir.script import relax as R

from .conftest import verify
from .structure import operators


def test_combine_parallel_matmul(same_numbers):
    @I.ir_module
    class Before:
        @R.function
        def main(
            x: R.Tensor((2, 8), "float32"),
            w0: R.Tensor((8, 4), "float32"),
            w1: R.Tensor((8, 6), "float32"),
            b0: R.Tensor((4,), "float32"),
            b1: R.Tensor((6,), "float32"),
        ) -> R.Tuple(R.Tensor((2, 4), "float32"), R.Tensor((2, 6), "float32")):
            with R.dataflow():
                lv0 = R.matmul(x, w0)
                lv1 = R.add(lv0, b0)
                lv2 = R.nn.relu(lv1)
                lv3 = R.matmul(x, w1)
                lv4 = R.add(lv3, b1)
                lv5 = R.nn.relu(lv4)
                out = (lv2, lv5)
                R.output(out)
            return out

    after = transform.CombineParallelMatmul()(Before)
    assert operators(after) == [
        "relax.concat",
        "relax.matmul",
        "relax.concat",
        "relax.add",
        "relax.nn.relu",
        "relax.split",
    ]
    same_numbers(Before, after, [(2, 8), (8, 4), (8, 6), (4,), (6,)])
    # any elementwise operator will do that declares to be one and has no attributes
    tanh = from_source(Before.script().replace("R.nn.relu", "R.tanh"))
    assert operators(transform.CombineParallelMatmul()(tanh)).count("relax.tanh") == 1
    softplus = from_source(Before.script().replace("R.nn.relu", "R.nn.softplus"))
    assert operators(transform.CombineParallelMatmul()(softplus)).count("relax.nn.softplus") == 2
    verify(transform.CombineParallelMatmul(lambda x, rhs, bias, bindings: False)(Before), Before)
