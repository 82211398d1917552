"""Step-by-step edits of a dataflow block."""

from __future__ import annotations

import pytest

import ir
from ir import relax as rx
from ir.relax.dataflow_block_rewrite import DataflowBlockRewrite

T = rx.TensorStructInfo


def example() -> tuple[rx.Function, rx.Var, rx.Var, rx.Var]:
    x = rx.Var("x", T((2,)))
    bb = rx.BlockBuilder()
    with bb.function("main", [x]):
        with bb.dataflow():
            a = bb.emit(rx.op.abs(x), "a")
            b = bb.emit(rx.op.exp(a), "b")
            out = bb.emit_output(rx.op.add(b, a), "out")
        bb.emit_func_output(out)
    return bb.finalize()["main"], a, b, out


def names(block: rx.DataflowBlock) -> list[str]:
    return [binding.var.name_hint for binding in block.bindings]


def test_replace_all_uses_and_remove() -> None:
    func, a, b, _ = example()
    rewrite = DataflowBlockRewrite(func.body.blocks[0], func)
    rewrite.replace_all_uses(b, a)
    assert names(rewrite.mutated_dfb()) == ["a", "b", "out"]
    rewrite.remove_unused(b)
    assert names(rewrite.mutated_dfb()) == ["a", "out"]
    new = rewrite.mutated_root_fn()
    assert rx.analysis.well_formed(new)
    assert new.body.blocks[0].bindings[-1].value.args == (a, a)
    assert names(func.body.blocks[0]) == ["a", "b", "out"]  # the original is as it was


def test_add_and_replace_moves_bindings() -> None:
    func, a, b, _ = example()
    rewrite = DataflowBlockRewrite(func.body.blocks[0], func)
    rewrite.add(rx.op.tanh(a), "c", is_dfvar=True)
    rewrite.replace_all_uses(b, rewrite.mutated_dfb().bindings[-1].var)
    rewrite.remove_all_unused()
    assert names(rewrite.mutated_dfb()) == ["a", "c", "out"]
    assert rx.analysis.well_formed(rewrite.mutated_root_fn())


def test_remove_unused_checks_uses() -> None:
    func, a, _, _ = example()
    rewrite = DataflowBlockRewrite(func.body.blocks[0], func)
    with pytest.raises(ir.IRValueError, match="a is still used"):
        rewrite.remove_unused(a)
    with pytest.raises(ir.IRValueError, match="does not bind z"):
        rewrite.remove_unused(rx.Var("z", T((2,))))
    rewrite.remove_unused(rx.Var("z", T((2,))), allow_undef=True)


def test_module() -> None:
    func, _, b, _ = example()
    mod = ir.IRModule({"main": func})
    rewrite = DataflowBlockRewrite(func.body.blocks[0], func)
    rewrite.add(rx.op.negative(b))
    new = rewrite.mutate_irmodule(mod)
    assert names(new["main"].body.blocks[0]) == ["a", "b", "out", "gv"] and mod["main"] is func
    with pytest.raises(ir.IRValueError, match="does not hold"):
        rewrite.mutate_irmodule(ir.IRModule())
    with pytest.raises(ir.IRValueError, match="none of the function's"):
        DataflowBlockRewrite(rx.DataflowBlock(()), func)
