"""BindParams: parameters become constants."""

from __future__ import annotations

import numpy as np
import pytest

import runners
from ir import relax
from ir.error import IRValueError
from ir.relax import transform
from ir.relax.testing import evaluate
from ir.script import ir as I
from ir.script import relax as R
from ir.script import tir as T


def test_a_weight_and_its_extents_are_bound():
    @I.ir_module
    class Module:
        @R.function
        def main(x: R.Tensor(("n", 4), "float32"), w: R.Tensor((4, "m"), "float32")) -> R.Tensor(
            ("n", "m"), "float32"
        ):
            n, m = T.int64(), T.int64()
            with R.dataflow():
                gv = R.matmul(x, w)
                R.output(gv)
            return gv

    weight = np.ones((4, 3), "float32")
    bound = transform.BindParams("main", {"w": weight})(Module)
    assert len(bound["main"].params) == 1
    assert str(bound["main"].ret_struct_info) == 'R.Tensor((n, 3), dtype="float32")'
    x = np.arange(8, dtype="float32").reshape(2, 4)
    np.testing.assert_array_equal(evaluate(bound, x), evaluate(Module, x, weight))
    with pytest.raises(IRValueError, match="'v'"):
        transform.BindParams("main", {"v": weight})(Module)


@pytest.mark.parametrize(
    "array",
    [np.ones(5, "float32"), np.ones((4, 1), "float32"), np.ones(4, "int32"), np.ones(4, "float16")],
    ids=str,
)
def test_what_is_no_value_of_the_parameter_is_refused(array):
    @I.ir_module
    class Module:
        @R.function
        def main(x: R.Tensor((4,), "float32"), w: R.Tensor((4,), "float32")):
            y = R.add(x, w)
            return y

    with pytest.raises(IRValueError, match="parameter w is .* it cannot be"):
        transform.BindParams("main", {"w": array})(Module)


def test_a_bound_parameter_that_is_overwritten_is_the_same_in_every_call():
    @I.ir_module
    class Module:
        @T.prim_func(private=True)
        def add_to(a: T.Buffer((4,), "float32"), b: T.Buffer((4,), "float32")):
            for i in range(4):
                with T.block("b"):
                    vi = T.axis.remap("S", [i])
                    a[vi] = a[vi] + b[vi]

        @R.function
        def main(x: R.Tensor((4,), "float32"), w: R.Tensor((4,), "float32")):
            cls = Module
            y = R.call_tir_inplace(
                cls.add_to, (w, x), out_sinfo=R.Tensor((4,), "float32"), inplace_indices=[0]
            )
            return y

    w = np.float32([1, 2, 3, 4])
    bound = transform.BindParams("main", {"w": w})(Module)
    vm = runners.VirtualMachine(relax.build(bound, "llvm", tir_pipeline=None), runners.cpu())
    x = np.ones(4, "float32")
    for _ in range(3):
        np.testing.assert_array_equal(vm["main"](x).numpy(), [2, 3, 4, 5])
        np.testing.assert_array_equal(evaluate(bound, x), [2, 3, 4, 5])
    np.testing.assert_array_equal(w, [1, 2, 3, 4])
