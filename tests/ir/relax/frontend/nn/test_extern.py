"""External modules: the documents' example compiled, called and exported; object files; what can go wrong."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from ir import get_global_func, remove_global_func
from ir.relax.frontend import nn

SOURCE = """
#include <dlpack/dlpack.h>
#include <tvm/runtime/data_type.h>
#include <tvm/runtime/packed_func.h>

namespace {
// anonymous namespace hides the symbol `_my_func_impl` from other translation units
int _my_func_impl(DLTensor* a, DLTensor* b, DLTensor* c) {
  // `a` and `b` are inputs, and `c` is the output
  if (c->ndim != 4 || c->dtype.code != kDLFloat || c->dtype.bits != 32) return 7;
  const float* x = static_cast<const float*>(a->data);
  const float* y = static_cast<const float*>(b->data);
  float* out = static_cast<float*>(c->data);
  int64_t I = c->shape[0], J = c->shape[1], K = c->shape[2], L = c->shape[3];
  for (int64_t i = 0; i < I; ++i)
    for (int64_t j = 0; j < J; ++j)
      for (int64_t k = 0; k < K; ++k)
        for (int64_t l = 0; l < L; ++l)
          out[((i * J + j) * K + k) * L + l] = x[i * J + j] * y[(j * K + k) * 5] + l;
  return 0;
}
}
// expose symbol `my_func` instead of `_my_func_impl`
TVM_DLL_EXPORT_TYPED_FUNC(my_func, _my_func_impl);
"""

needs_compiler = pytest.mark.skipif(
    not any(shutil.which(name) for name in ("g++", "clang++", "c++")), reason="no C++ compiler"
)


def shape_dtype_inference(a: nn.Tensor, b: nn.Tensor) -> nn.Tensor:
    x, y, _ = a.shape
    _, z, _ = b.shape
    return nn.Tensor.placeholder((x, y, z, 9), dtype="float32")


SYMBOLS = {"my_func": shape_dtype_inference}


def arrays() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    a, b = rng.random((2, 3, 1), np.float32), rng.random((3, 4, 5), np.float32)
    expected = a[:, :, :1, None] * b[None, :, :, :1] + np.arange(9, dtype=np.float32)
    return a, b, np.zeros((2, 3, 4, 9), np.float32), expected


@needs_compiler
def test_source_module() -> None:
    module = nn.SourceModule(symbols=SYMBOLS, source_code=SOURCE, source_format="cpp")
    library = module.load()
    a, b, out, expected = arrays()
    library["my_func"](a, b, out)
    np.testing.assert_allclose(out, expected, rtol=1e-6)
    with pytest.raises(nn.NNError, match="failed with status 7"):
        library["my_func"](a, b, out.astype("float64"))
    with pytest.raises(TypeError, match="another number of arguments than the 1"):
        library["my_func"](a)
    with pytest.raises(nn.NNError, match="no function 'other'"):
        library["other"]


@needs_compiler
def test_registered_functions_are_found_by_programs() -> None:
    nn.SourceModule(symbols=SYMBOLS, source_code=SOURCE, source_format="cpp").load().register()
    try:
        a, b, out, expected = arrays()
        found = get_global_func("my_func")
        assert found is not None
        found(a, b, out)
        np.testing.assert_allclose(out, expected, rtol=1e-6)
    finally:
        remove_global_func("my_func")


@needs_compiler
def test_object_module(tmp_path: Path) -> None:
    source = tmp_path / "kernel.cpp"
    source.write_text(SOURCE)
    compiled = tmp_path / "kernel.o"
    nn.SourceModule(symbols=SYMBOLS, source_code=source, source_format="cpp").compile(compiled)
    a, b, out, expected = arrays()
    nn.ObjectModule(symbols=SYMBOLS, filepath=compiled).load()["my_func"](a, b, out)
    np.testing.assert_allclose(out, expected, rtol=1e-6)
    with pytest.raises(nn.NNError, match="does not export 'absent'"):
        nn.ObjectModule(symbols={"absent": shape_dtype_inference}, filepath=compiled).load()["absent"]
    with pytest.raises(ValueError, match="not a file"):
        nn.ObjectModule(symbols=SYMBOLS, filepath=tmp_path / "missing.o")


@needs_compiler
def test_the_compilers_messages_are_shown() -> None:
    module = nn.SourceModule(symbols=SYMBOLS, source_code="int broken(\n", source_format="cpp")
    with pytest.raises(nn.NNError, match=r"(?s)failed on the external module with \['my_func'\].*error"):
        module.load()


def test_formats_are_checked() -> None:
    with pytest.raises(ValueError, match="source_format is 'cpp' or 'cu', got 'rs'"):
        nn.SourceModule(symbols=SYMBOLS, source_code=SOURCE, source_format="rs")
    with pytest.raises(ValueError, match="output_format"):
        nn.SourceModule(symbols=SYMBOLS, source_code=SOURCE, source_format="cpp", output_format="exe")


def test_compile_options(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("TVM_HOME", raising=False)
    options = nn.SourceModule.get_compile_options("cpp")
    assert {"-O3", "-std=c++17", "-c"} <= set(options)
    with pytest.raises(nn.NNError, match="TVM_HOME"):
        nn.SourceModule.get_compile_options("cpp", ["cutlass"])
    for folder in ("include", "3rdparty/dlpack/include", "3rdparty/dmlc-core/include", "3rdparty/cutlass"):
        (tmp_path / folder).mkdir(parents=True)
    monkeypatch.setenv("TVM_HOME", str(tmp_path))
    assert nn.SourceModule.tvm_home() == tmp_path
    assert tmp_path / "3rdparty" / "cutlass" in nn.SourceModule.get_includes(["cutlass"])
    assert str(tmp_path / "include") in nn.SourceModule.get_compile_options("cu")
    monkeypatch.setenv("TVM_HOME", str(tmp_path / "include"))
    with pytest.raises(nn.NNError, match="has no folder 'include'"):
        nn.SourceModule.tvm_home()
