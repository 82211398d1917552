"""Networks of many kinds, exported by PyTorch, imported, built with default schedules, compared with ONNX Runtime."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("onnxscript")
pytest.importorskip("onnx")
ort = pytest.importorskip("onnxruntime")

import runners  # noqa: E402
import tuner  # noqa: E402
from ir.relax.frontend.onnx import from_onnx  # noqa: E402
from tests.ir.relax.frontend.onnx.architectures import ARCHITECTURES  # noqa: E402


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_built_network_matches_onnx_runtime(name: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    model, inputs = ARCHITECTURES[name]()
    path = tmp_path / f"{name}.onnx"
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the exporter warns of its own deprecations
        torch.onnx.export(model.eval(), inputs, str(path), dynamo=True, external_data=False, verbose=False)
    options = ort.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = 1
    session = ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    arrays = [item.numpy() for item in inputs]
    wanted = session.run(None, dict(zip((item.name for item in session.get_inputs()), arrays, strict=True)))
    machine = runners.VirtualMachine(tuner.compile_relax(from_onnx(path), target="cpu"), runners.cpu())
    result = machine["main"](*arrays)
    results = result if isinstance(result, tuple | list) else [result]
    assert len(results) == len(wanted)
    for got, expected in zip(results, wanted, strict=True):
        assert np.abs(expected).max() > 1e-3  # networks that let nothing through would prove nothing
        np.testing.assert_allclose(
            np.asarray(got), expected, rtol=1e-4, atol=1e-4 * float(np.abs(expected).max())
        )
