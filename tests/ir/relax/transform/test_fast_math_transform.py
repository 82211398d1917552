"""FastMathTransform: functions become approximations."""

from __future__ import annotations

from ir import relax
from ir.relax import transform
from tests.programs.graphs import network

from .structure import operators

op = relax.op


def test_fast_math(same_numbers):
    mod = network(lambda bb, x: bb.emit(op.tanh(bb.emit(op.exp(x)))), (4, 4))
    after = transform.FastMathTransform()(mod)
    assert operators(after) == ["relax.call_tir", "relax.call_tir"]
    same_numbers(mod, after, [(4, 4)], rtol=1e-3, atol=1e-3)
