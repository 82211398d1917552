"""TopologicalSort: the bindings of a block in another order."""

from __future__ import annotations

import pytest

from ir.error import IRValueError
from ir.relax import transform
from ir.script import ir as I
from ir.script import relax as R


@pytest.mark.parametrize(
    ("order", "direction", "expected"),
    [
        ("depth-first", "from-inputs", ["a", "c", "b", "d", "e"]),
        ("breadth-first", "from-inputs", ["a", "b", "c", "d", "e"]),
        ("depth-first", "from-outputs", ["a", "c", "b", "d", "e"]),
        ("breadth-first", "from-outputs", ["b", "a", "d", "c", "e"]),
    ],
)
def test_topological_sort(order, direction, expected, same_numbers):
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((8,), "float32"), y: R.Tensor((8,), "float32")) -> R.Tensor((8,), "float32"):
            with R.dataflow():
                a = R.exp(x)
                b = R.exp(y)
                c = R.negative(a)
                d = R.negative(b)
                e = R.add(c, d)
                R.output(e)
            return e

    after = transform.TopologicalSort(order, direction)(Before)
    assert [b.var.name_hint for b in after["main"].body.blocks[0].bindings] == expected
    same_numbers(Before, after, [(8,), (8,)])


def test_topological_sort_rejects():
    with pytest.raises(IRValueError, match="order must be"):
        transform.TopologicalSort("random")
    with pytest.raises(IRValueError, match="direction must be"):
        transform.TopologicalSort("depth-first", "sideways")


def test_topological_sort_of_several_outputs():
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((8,), "float32"), y: R.Tensor((8,), "float32")):
            with R.dataflow():
                b = R.exp(y)
                f = R.sin(b)
                a = R.exp(x)
                e = R.add(a, b)
                R.output(e, f)
            return (e, f)

    after = transform.TopologicalSort("depth-first", "from-outputs")(Before)
    names = [b.var.name_hint for b in after["main"].body.blocks[0].bindings]
    assert names == ["a", "b", "e", "f"]  # taken backwards from the last result on
