"""lower: the default pipeline, hooks for further passes, and what is left in the result."""

from __future__ import annotations

import numpy as np
import pytest

from ir import IRModule, tir
from ir.error import IRValueError
from ir.node import post_order_visit
from ir.tir.interpreter import run
from ir.tir.lower import lower
from ir.transform import PassContext
from tests.programs.expressions import matmul_relu


def kinds(func: tir.PrimFunc) -> set[str]:
    found: set[str] = set()
    post_order_visit(func.body, lambda node: found.add(type(node).__name__))
    return found


def test_result_is_flat_and_computes_the_same() -> None:
    func = matmul_relu(8, 4, 6)
    module = lower(func)
    lowered = module["main"]
    assert not kinds(lowered) & {"Block", "BlockRealize", "MatchBufferRegion"}
    post_order_visit(lowered.body, lambda n: _check_flat(n))
    rng = np.random.default_rng(0)
    a, b = rng.integers(-4, 5, (8, 6)).astype("float32"), rng.integers(-4, 5, (6, 4)).astype("float32")
    d = np.zeros((8, 4), "float32")
    run(lowered, a, b, d)
    np.testing.assert_array_equal(d, np.maximum(a @ b, 0))


def _check_flat(node: object) -> None:
    if isinstance(node, tir.BufferLoad | tir.BufferStore):
        assert len(node.indices) == 1


def test_lowering_twice_changes_nothing() -> None:
    once = lower(matmul_relu(8, 4, 6))
    again = lower(once)
    d1, d2 = np.zeros((8, 4), "float32"), np.zeros((8, 4), "float32")
    a, b = np.ones((8, 6), "float32"), np.ones((6, 4), "float32")
    run(once["main"], a, b, d1)
    run(again["main"], a, b, d2)
    np.testing.assert_array_equal(d1, d2)


def test_passes_can_be_added() -> None:
    seen: list[tuple[int, bool]] = []

    def watcher(phase: int) -> object:
        @tir.transform.prim_func_pass(opt_level=0, name=f"watch{phase}")
        def watch(func, mod, ctx):
            seen.append((phase, "Block" in kinds(func)))
            return func

        return watch

    with PassContext(config={"tir.add_lower_pass": [(0, watcher(0)), (1, watcher(1)), (3, watcher(3))]}):
        lower(matmul_relu(8, 4, 6))
    assert seen == [(0, True), (1, False), (3, False)]


@pytest.mark.parametrize("entry", [(4, tir.transform.Simplify()), ("1", tir.transform.Simplify()), 3, (1,)])
def test_passes_have_a_place(entry: object) -> None:
    with PassContext(config={"tir.add_lower_pass": [entry]}):
        with pytest.raises(
            IRValueError, match=r"'tir.add_lower_pass' takes \(phase, pass\) pairs with a phase of 0, 1"
        ):
            lower(matmul_relu(8, 4, 6))


def test_modules_keep_other_functions() -> None:
    module = IRModule(
        {
            "f": matmul_relu(8, 4, 6).without_attr("global_symbol"),
            "g": matmul_relu(8, 4, 6).without_attr("global_symbol"),
        }
    )
    lowered = lower(module)
    assert {var.name_hint for var in lowered.functions} == {"f", "g"}
