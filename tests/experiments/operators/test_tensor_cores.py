"""Each row for tensor cores: our program and PyTorch's function compute what the reference says."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from experiments.operators import data, peers, suite
from experiments.operators.small_shapes import TENSOR_CORES as SMALL
from ir.codegen.build import build

ROWS = suite.SUITES["tensor_cores"]


def test_every_row_has_small_shapes() -> None:
    assert list(SMALL) == list(ROWS)


@pytest.mark.parametrize("name", [name for name in ROWS if "attention" in name])
def test_attention_is_what_the_reference_says(tmp_path: Path, name: str) -> None:
    path = tmp_path / "row.npz"
    data.write(path, name, SMALL[name])
    inputs, expected = data.read(str(path))
    assert expected.dtype == "float16"
    out = np.zeros(expected.shape, "float16")
    build(suite.workload(name, SMALL[name]), "llvm")["main"](*inputs, out)
    assert data.error_of(out, expected) < 5e-4
    pytest.importorskip("torch")
    assert peers.torch(name, SMALL[name], str(path), threads=1).facts["error"] < 1e-3
