"""Which calls round to whole numbers is declared where they are, and known of their lowered forms."""

from __future__ import annotations

import numpy as np

from ir import tir
from ir.tir.intrinsic.declaration import INTRINSICS
from ir.tir.intrinsic.rounding import rounded_argument
from ir.tir.op import call_llvm_pure_intrin

FRACTIONS = np.array([0.25, 0.75, 1.5, 2.5, -0.25, -1.75, -2.5, 1e6 + 0.25])
X = tir.Var("x", "float32")


def test_what_gives_whole_numbers_near_its_argument_is_declared_to_round() -> None:
    found = set()
    for record in INTRINSICS.values():
        if record.arity == (1, 1) and record.elementwise and record.meaning is not None:
            with np.errstate(all="ignore"):
                try:
                    values = np.asarray(record.meaning(FRACTIONS), "float64")
                except TypeError:  # of integers only
                    continue
            if np.all(values == np.trunc(values)) and np.all(np.abs(values - FRACTIONS) <= 1):
                found.add(record.name)
    assert found == {record.name for record in INTRINSICS.values() if record.rounds}
    assert {"floor", "ceil", "trunc", "round", "nearbyint"} <= found


def test_the_argument_of_a_lowered_call() -> None:
    for record in INTRINSICS.values():
        call = tir.Call("float32", record.op_name, [X])
        if record.arity == (1, 1):
            assert (rounded_argument(call) is X) == record.rounds
        lowering = record.lowering_for("llvm")
        if record.rounds and lowering is not None:
            assert rounded_argument(lowering(call)) is X, record.name
    assert rounded_argument(call_llvm_pure_intrin("float32", "llvm.sqrt.f32", X)) is None
