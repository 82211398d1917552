"""A model that would end this process ends a child, and an error says so."""

from __future__ import annotations

import numpy as np
import pytest

import runners
from ir import relax
from ir.script import from_source
from tuner.compare.survival import EndsProcessError, require_survives


def test_a_model_that_divides_by_zero_is_told_from_one_that_does_not() -> None:
    mod = from_source("""
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((4,), "int32"), y: R.Tensor((4,), "int32")) -> R.Tensor((4,), "int32"):
        z: R.Tensor((4,), "int32") = R.floor_divide(x, y)
        return z
""")
    main = runners.VirtualMachine(relax.build(mod, "llvm"), runners.cpu())["main"]
    x = np.arange(4, dtype="int32")
    with pytest.raises(EndsProcessError, match="SIGFPE"):
        require_survives(lambda: main(x, np.zeros(4, "int32")))
    require_survives(lambda: main(x, x + 1))


def test_an_error_is_left_to_the_caller() -> None:
    def call() -> None:
        raise ValueError

    require_survives(call)
