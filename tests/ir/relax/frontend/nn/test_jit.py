"""Module.jit: compiled methods called with torch tensors, or handed over with their machine."""

from __future__ import annotations

import shutil

import numpy as np
import pytest

from ir import register_func, remove_global_func
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


class Cached(nn.Module):
    def __init__(self) -> None:
        self.cache = nn.KVCache(2, [3])

    def forward(self, x: nn.Tensor, total: int) -> nn.Tensor:
        self.cache.append(x)
        return self.cache.view(total)


def test_kv_cache_is_kept_between_calls() -> None:
    torch = pytest.importorskip("torch")
    compiled = Cached().jit(spec={"forward": {"x": spec.Tensor(["n", 3], "float32"), "total": int}})
    rows = torch.arange(15, dtype=torch.float32).reshape(5, 3)
    assert torch.equal(compiled["forward"](rows[:2], 2), rows[:2])
    assert torch.equal(compiled["forward"](rows[2:], 5), rows)
    with pytest.raises(ValueError, match=r"KVCache.view: \(9, 3\) does not fit 6 elements"):
        compiled["forward"](rows[:1], 9)


def test_printing_and_debug_functions(capsys: pytest.CaptureFixture[str]) -> None:
    torch = pytest.importorskip("torch")

    class Talking(nn.Module):
        def forward(self, x: nn.Tensor) -> nn.Tensor:
            y = x + 1.0
            nn.print_(y)
            nn.debug_func("test_jit.record", y, 3, "text")
            return y

    seen: list = []
    register_func("test_jit.record", lambda line, *args: seen.append((line, args)))
    try:
        compiled = Talking().jit(spec={"forward": {"x": spec.Tensor([2], "float32")}}, debug=True)
        compiled["forward"](torch.ones(2))
    finally:
        remove_global_func("test_jit.record")
    printed = capsys.readouterr().out
    assert "test_jit.py:" in printed and "dtype = float32" in printed and "[2. 2.]" in printed
    ((line, (array, number, text)),) = seen
    assert (
        line.rsplit(":", 1)[0] == __file__
        and np.asarray(array).tolist() == [2, 2]
        and (number, text) == (3, "text")
    )


def test_external_modules_run() -> None:
    torch = pytest.importorskip("torch")
    if not any(shutil.which(name) for name in ("g++", "clang++", "c++")):
        pytest.skip("no C++ compiler")
    source = """
    #include <tvm/runtime/packed_func.h>
    int twice(DLTensor* a, DLTensor* out) {
      for (int64_t i = 0; i < a->shape[0]; ++i)
        static_cast<float*>(out->data)[i] = 2 * static_cast<float*>(a->data)[i];
      return 0;
    }
    TVM_DLL_EXPORT_TYPED_FUNC(test_jit_twice, twice);
    """
    symbols = {"test_jit_twice": lambda a: nn.Tensor.placeholder(a.shape, a.dtype)}

    class External(nn.Module):
        def forward(self, x: nn.Tensor) -> nn.Tensor:
            module = nn.SourceModule(symbols=symbols, source_code=source, source_format="cpp")
            nn.add_extern(module)
            return module["test_jit_twice"](x) + 1.0

    compiled = External().jit(spec={"forward": {"x": spec.Tensor([3], "float32")}})
    assert compiled["forward"](torch.ones(3)).tolist() == [3, 3, 3]
    remove_global_func("test_jit_twice")
