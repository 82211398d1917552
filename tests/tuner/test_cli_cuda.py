"""The command line for CUDA devices, on the stand-in: a model is tuned, built, run and compared; what is missing is named."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import runners
from ir.codegen.cuda.emulation.compile import has_compiler
from ir.codegen.cuda.toolkit import toolkit
from ir.codegen.error import CudaToolkitError
from ir.target.cuda_device import DRIVER_VARIABLE, cuda_attributes
from runners.cuda import stand_in
from runners.cuda.driver import stands_in
from tuner.cli import main as entry

from .test_cli import loopsmith


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A layer with a softmax behind it."""
    onnx = pytest.importorskip("onnx")
    try:
        toolkit()
    except CudaToolkitError as error:
        pytest.skip(str(error))
    helper, kind = onnx.helper, onnx.TensorProto.FLOAT
    weight = np.random.default_rng(0).standard_normal((16, 8)).astype("float32")
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["a"]),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("Softmax", ["b"], ["y"], axis=-1),
    ]
    graph = helper.make_graph(
        nodes,
        "layer",
        [helper.make_tensor_value_info("x", kind, [4, 16])],
        [helper.make_tensor_value_info("y", kind, [4, 8])],
        [onnx.numpy_helper.from_array(weight, "w")],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    path = tmp_path / "layer.onnx"
    path.write_bytes(made.SerializeToString())
    return path


_PROGRAM = """
#include <stdio.h>
#include "layer.h"
int main(void) {
  float x[4 * 16] = {1, -2, 3}, y[4 * 8];
  loopsmith_layer *model;
  if (loopsmith_layer_create(0, &model) || loopsmith_layer_run_main(model, x, y) || loopsmith_layer_destroy(model)) {
    puts(loopsmith_layer_last_error());
    return 0;
  }
  for (int i = 0; i < 4; ++i) {
    float sum = 0;
    for (int j = 0; j < 8; ++j) sum += y[8 * i + j];
    printf("%.3g%s", (double)sum, i < 3 ? " " : "");
  }
  return 0;
}
"""


def _what_a_c_program_says(folder: Path) -> str:
    """The sums of the rows of a softmax, or the text of an error; the program finds ``layer.so`` and its header in the folder."""
    if shutil.which("cc") is None:
        pytest.skip("needs a C compiler")
    (folder / "main.c").write_text(_PROGRAM)
    command = ["cc", "-Wall", "-Werror", "main.c", "-o", "main", "-L.", "-l:layer.so", "-Wl,-rpath,."]
    subprocess.run(command, check=True, cwd=folder, timeout=60)
    if stands_in():
        (folder / "images").mkdir(exist_ok=True)
        stand_in.keep_image(runners.load_module(folder / "layer.so").device_code, folder / "images")
    environment = {**os.environ, stand_in.IMAGES_VARIABLE: str(folder / "images")}
    ran = subprocess.run(["./main"], cwd=folder, env=environment, capture_output=True, text=True, timeout=60)
    assert ran.returncode == 0
    return ran.stdout


@pytest.mark.slow
def test_tune_build_run_and_bench(model: Path, tmp_path: Path) -> None:
    if not has_compiler():
        pytest.skip("needs a C++ compiler")
    pytest.importorskip("onnxruntime")
    with stand_in.used(devices=1):
        options = ["--target", "cuda", "--database", "tuning.db"]
        tuned = loopsmith("tune", "layer.onnx", *options, "--trials", "8", cwd=tmp_path)
        assert tuned.returncode == 0, tuned.stderr + tuned.stdout
        assert "records cover 100.0%" in tuned.stdout and "the speed of the default build" in tuned.stdout
        assert "ONNX Runtime ran on the processor" in tuned.stdout.replace("\n", " ")
        assert "ONNX Runtime's differ by" in tuned.stdout.replace("\n", " ")
        built = loopsmith("build", "layer.onnx", *options, "--strict", "-o", "layer.so", cwd=tmp_path)
        assert built.returncode == 0, built.stderr
        assert "wrote layer.so" in built.stdout and "and layer.h" in built.stdout.replace("\n", " ")
        assert _what_a_c_program_says(tmp_path) == "1 1 1 1"
        ran = loopsmith("run", "layer.so", "--check", "layer.onnx", "--profile", cwd=tmp_path)
        assert ran.returncode == 0, ran.stderr
        assert "output 0: float32[4, 8]" in ran.stdout and "softmax" in ran.stdout
        assert "relative error" in ran.stdout
        timed = loopsmith(
            "bench", "layer.so", "--compare", "onnxruntime", "--rounds", "1", "--threads", "1", cwd=tmp_path
        )
        assert timed.returncode == 0, timed.stderr
        assert "loopsmith" in timed.stdout and "onnxr" in timed.stdout
        assert "ran on cuda(0), onnxruntime on the processor" in timed.stdout.replace("\n", " ")


def test_a_model_is_built_for_the_device_and_called_from_c(model: Path, tmp_path: Path) -> None:
    if not has_compiler():
        pytest.skip("needs a C++ compiler")
    with stand_in.used(devices=1):
        built = loopsmith("build", "layer.onnx", "--target", "cuda", "-o", "layer.so", cwd=tmp_path)
        assert built.returncode == 0, built.stderr
        assert "and layer.h" in built.stdout.replace("\n", " ")
        assert _what_a_c_program_says(tmp_path) == "1 1 1 1"


@pytest.fixture
def no_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(DRIVER_VARIABLE, "libcuda-of-nobody.so")
    cuda_attributes.cache_clear()


def _complaint(
    arguments: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> str:
    monkeypatch.setattr(sys, "argv", ["loopsmith", *arguments])
    with pytest.raises(SystemExit) as leaving:
        entry.main()
    said = capsys.readouterr().err
    assert leaving.value.code == 2, said
    assert len(said.strip().splitlines()) == 1
    return said


def test_without_a_driver_a_model_is_built_and_neither_tuned_nor_run(
    no_driver: None,
    model: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    target = ["--target", "nvidia/nvidia-a100"]
    said = _complaint(["tune", "layer.onnx", *target, "--database", "new.db"], monkeypatch, capsys)
    assert "no CUDA driver: libcuda-of-nobody.so" in said and "install NVIDIA's driver" in said
    assert DRIVER_VARIABLE in said and not os.path.exists("new.db")
    monkeypatch.setattr(sys, "argv", ["loopsmith", "build", "layer.onnx", *target, "-o", "layer.so"])
    entry.main()
    assert "wrote layer.so" in capsys.readouterr().out
    assert "no CUDA driver: libcuda-of-nobody.so" in _what_a_c_program_says(tmp_path)
    assert "no CUDA driver" in _complaint(["run", "layer.so"], monkeypatch, capsys)
    assert "no CUDA driver" in _complaint(["bench", "layer.so"], monkeypatch, capsys)
