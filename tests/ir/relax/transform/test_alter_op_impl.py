"""AlterOpImpl: kernels are replaced by others that may want other layouts."""

from __future__ import annotations

import pytest

from ir.error import IRValueError
from ir.relax import transform
from ir.script import ir as I
from ir.script import relax as R
from ir.script import tir as T

from .structure import operators, values


def test_alter_op_impl(same_numbers):
    @I.ir_module
    class Before:
        @T.prim_func(private=True)
        def add(a: T.Buffer((16,), "float32"), b: T.Buffer((16,), "float32"), c: T.Buffer((16,), "float32")):
            T.func_attr({"operator_name": "relax.add"})
            for i in range(16):
                with T.block("add"):
                    vi = T.axis.spatial(16, i)
                    c[vi] = a[vi] + b[vi]

        @R.function
        def main(x: R.Tensor((16,), "float32"), y: R.Tensor((16,), "float32")) -> R.Tensor((16,), "float32"):
            cls = Before
            with R.dataflow():
                gv = R.call_tir(cls.add, (x, y), out_sinfo=R.Tensor((16,), "float32"))
                R.output(gv)
            return gv

    @T.prim_func(private=True)
    def add_2d(
        a: T.Buffer((4, 4), "float32"), b: T.Buffer((4, 4), "float32"), c: T.Buffer((4, 4), "float32")
    ):
        T.func_attr({"operator_name": "relax.add"})
        for i, j in T.grid(4, 4):
            with T.block("add"):
                vi, vj = T.axis.remap("SS", [i, j])
                c[vi, vj] = a[vi, vj] + b[vi, vj]

    transforms = [lambda i: (i // 4, i % 4)] * 3
    after = transform.AlterOpImpl({"relax.add": add_2d}, {"relax.add": transforms}, {}, {})(Before)
    assert operators(after) == ["relax.layout_transform"] * 2 + ["relax.call_tir", "relax.layout_transform"]
    same_numbers(Before, after, [(16,), (16,)])
    with pytest.raises(IRValueError, match="got 2 transforms"):
        transform.AlterOpImpl({"relax.add": add_2d}, {"relax.add": transforms[:2]}, {}, {})(Before)


def test_operands_are_moved_with_the_axis_separators_of_their_buffers():
    @I.ir_module
    class Before:
        @T.prim_func(private=True)
        def double(a: T.Buffer((2, 2, 2), "float32"), b: T.Buffer((2, 2, 2), "float32")):
            T.func_attr({"operator_name": "relax.double"})
            for i, j, k in T.grid(2, 2, 2):
                with T.block("double"):
                    vi, vj, vk = T.axis.remap("SSS", [i, j, k])
                    b[vi, vj, vk] = a[vi, vj, vk] * T.float32(2)

        @R.function
        def main(x: R.Tensor((2, 2, 2), "float32")) -> R.Tensor((2, 2, 2), "float32"):
            cls = Before
            with R.dataflow():
                gv = R.call_tir(cls.double, (x,), out_sinfo=R.Tensor((2, 2, 2), "float32"))
                R.output(gv)
            return gv

    def of(separators):
        return {"relax.double": separators}

    transforms = of([lambda i, j, k: (k, i, j)] * 2)
    after = transform.AlterOpImpl(of(Before["double"]), transforms, of([[1]] * 2), of([[2]] * 2))(Before)
    moved = values(after)[0].attrs
    assert (list(moved["axis_separators"]), list(moved["input_axis_separators"])) == ([1], [2])
    # An output comes back the other way round.
    restored = values(after)[2].attrs
    assert (list(restored["axis_separators"]), list(restored["input_axis_separators"])) == ([2], [1])
    differing = transform.AlterOpImpl(of(Before["double"]), transforms, of([[], [1]]), of([[], [2]]))(Before)
    moved, restored = (values(differing)[number].attrs for number in (0, 2))
    assert (list(moved["axis_separators"]), list(moved["input_axis_separators"])) == ([], [])
    assert (list(restored["axis_separators"]), list(restored["input_axis_separators"])) == ([2], [1])
    with pytest.raises(IRValueError, match="has 2 buffers, op_buffer_axis_separators names 1"):
        transform.AlterOpImpl(of(Before["double"]), transforms, of([[1]]), {})(Before)


@pytest.mark.parametrize(
    "name, original_is_public",
    [("add", False), ("other", False), ("other", True), ("relax_add_replacement", False)],
)
def test_a_replacement_may_be_public(name, original_is_public, same_numbers):
    """It replaces kernels as a private one does, whatever it is called."""

    @I.ir_module
    class Before:
        @T.prim_func(private=True)
        def add(a: T.Buffer((4,), "float32"), b: T.Buffer((4,), "float32"), c: T.Buffer((4,), "float32")):
            T.func_attr({"operator_name": "relax.add"})
            for i in range(4):
                with T.block("add"):
                    vi = T.axis.spatial(4, i)
                    c[vi] = a[vi] + b[vi]

        @R.function
        def main(x: R.Tensor((4,), "float32"), y: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
            cls = Before
            lv = R.call_tir(cls.add, (x, y), out_sinfo=R.Tensor((4,), "float32"))
            gv = R.call_tir(cls.add, (lv, y), out_sinfo=R.Tensor((4,), "float32"))
            return gv

    @T.prim_func(private=True)
    def swapped(a: T.Buffer((4,), "float32"), b: T.Buffer((4,), "float32"), c: T.Buffer((4,), "float32")):
        T.func_attr({"operator_name": "relax.add"})
        for i in range(4):
            with T.block("swapped"):
                vi = T.axis.spatial(4, i)
                c[vi] = b[vi] + a[vi]

    mod = transform.AttachGlobalSymbol()(Before) if original_is_public else Before
    after = transform.AlterOpImpl({"relax.add": swapped.with_attr("global_symbol", name)}, {}, {}, {})(mod)
    called = {value.args[0].name_hint for value in values(after)}
    assert len(called) == 1 and 'T.block("swapped")' in after[called.pop()].script()
    same_numbers(mod, after, [(4,), (4,)])
