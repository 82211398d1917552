"""Normalize: nested expressions are bound one by one."""

from __future__ import annotations

from ir import IRModule, relax
from ir.relax import transform


def test_normalize_flattens():
    x = relax.Var("x", relax.TensorStructInfo((2,), "float32"))
    func = relax.Function([x], relax.op.add(relax.op.exp(x), x), relax.TensorStructInfo((2,), "float32"))
    after = transform.Normalize()(IRModule({"main": func.with_attr("global_symbol", "main")}))
    kinds = [type(b.value).__name__ for block in after["main"].body.blocks for b in block.bindings]
    assert kinds == ["Call", "Call"]
