"""Module.jit: compiled methods called with torch tensors, or handed over with their machine."""

from __future__ import annotations

import numpy as np
import pytest

from ir.relax.frontend import nn
from ir.relax.frontend.nn import spec


class Scaled(nn.Module):
    def __init__(self, bound: bool = True) -> None:
        self.weight = nn.Parameter((4,))
        if bound:
            self.weight.data = np.arange(4, dtype=np.float32)

    def forward(self, x: nn.Tensor) -> nn.Tensor:
        return x * self.weight

    def twice(self, x: nn.Tensor) -> tuple[nn.Tensor, nn.Tensor]:
        return x + x, self.forward(x)


SPEC = {name: {"x": spec.Tensor([2, 4], "float32")} for name in ("forward", "twice")}


def test_torch_tensors_in_and_out() -> None:
    torch = pytest.importorskip("torch")
    compiled = Scaled().jit(spec=SPEC)
    x = torch.ones(2, 4)
    assert compiled["forward"](x).tolist() == [[0, 1, 2, 3]] * 2
    double, scaled = compiled.twice(x)
    assert double.tolist() == [[2] * 4] * 2 and torch.equal(scaled, compiled.forward(x))
    with pytest.raises(nn.NNError, match="'missing'"):
        compiled["missing"]
    with pytest.raises(TypeError, match=r"forward takes 1 arguments \(x\), got 2"):
        compiled["forward"](x, x)


def test_machine_and_parameters() -> None:
    described, vm, params = Scaled().jit(spec=SPEC, out_format="tvm")
    assert described.method_names == ["forward", "twice"]
    x = np.ones((2, 4), np.float32)
    np.testing.assert_array_equal(np.asarray(vm["forward"](x, *params)), x * np.arange(4))


def test_debug_threads_the_effect() -> None:
    torch = pytest.importorskip("torch")
    compiled = Scaled().jit(spec=SPEC, debug=True)
    for _ in range(2):
        assert compiled["forward"](torch.ones(2, 4)).tolist() == [[0, 1, 2, 3]] * 2


def test_symbolic_extents() -> None:
    torch = pytest.importorskip("torch")
    compiled = Scaled().jit(spec={"forward": {"x": spec.Tensor(["n", 4], "float32")}})
    for n in (1, 3):
        assert compiled["forward"](torch.ones(n, 4)).shape == (n, 4)


def test_errors() -> None:
    with pytest.raises(ValueError, match="'weight' is not bound"):
        Scaled(bound=False).jit(spec=SPEC, out_format="tvm")
    with pytest.raises(ValueError, match="out_format is 'torch' or 'tvm'"):
        Scaled().jit(spec=SPEC, out_format="jax")
