"""Each row of the second suite: our program, PyTorch's function, the ONNX nodes and numpy compute what the reference says."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from experiments.operators import data, peers, suite
from experiments.operators.small_shapes import SECOND as SMALL
from ir.codegen.build import build

WITHOUT_NUMPY = {
    "gelu",
    "max_pool_nchw",
    "max_pool_nhwc",
    "avg_pool_nchw",
    "avg_pool_nhwc",
    "resize",
    "int8_product",
    "bfloat16_product",
}
ROWS = suite.SUITES["second"]


@pytest.fixture(scope="module")
def arrays(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("rows")
    for name, shape in SMALL.items():
        data.write(folder / f"{name}.npz", name, shape)
    return folder


def test_every_row_has_small_shapes() -> None:
    assert list(SMALL) == list(ROWS)


@pytest.mark.parametrize("name", ROWS)
def test_our_program_computes_the_reference(arrays: Path, name: str) -> None:
    inputs, expected = data.read(str(arrays / f"{name}.npz"))
    assert expected.dtype == suite.output_dtype(name, SMALL[name])
    assert expected.shape == suite.output_shape(name, SMALL[name])
    out = np.zeros(expected.shape, expected.dtype)
    build(suite.workload(name, SMALL[name]), "llvm")["main"](*inputs, out)
    assert data.error_of(out, expected) < (1e-2 if name == "bfloat16_product" else 1e-5)


@pytest.mark.parametrize("name", ROWS)
@pytest.mark.parametrize("peer", ["torch", "onnxruntime", "numpy"])
def test_peers_compute_the_reference(arrays: Path, name: str, peer: str) -> None:
    pytest.importorskip(peer)
    prepare = getattr(peers, peer)
    given = name, SMALL[name], str(arrays / f"{name}.npz")
    if (peer == "numpy" and name in WITHOUT_NUMPY) or (peer, name) == ("onnxruntime", "bfloat16_product"):
        with pytest.raises(KeyError, match=f"has no operator for {name}"):
            prepare(*given, threads=1)
        return
    ready = prepare(*given, threads=1)
    assert ready.facts["error"] < (1e-2 if name == "bfloat16_product" else 1e-5)
    ready.call()


@pytest.mark.parametrize("name", ROWS)
def test_rows_say_what_they_cost(name: str) -> None:
    assert ROWS[name].shapes and ROWS[name].description
    only_moves = ROWS[name].flops is None
    for shape in ROWS[name].shapes:
        assert suite.flops(name, shape) == 0 if only_moves else suite.flops(name, shape) > 0
        assert suite.bytes_moved(name, shape) > 0


def test_bytes_know_dtypes() -> None:
    assert suite.bytes_moved("int8_product", (8, 16, 32)) == 8 * 32 + 32 * 16 + 4 * 8 * 16
    assert suite.bytes_moved("bfloat16_product", (8, 16, 32)) == 2 * (8 * 32 + 32 * 16 + 8 * 16)
    assert suite.bytes_moved("embedding", (30522, 768, 128)) == 128 * (8 + 2 * 4 * 768)


def test_weights_are_layout_free() -> None:
    assert suite.workload("matvec").attrs["layout_free_buffers"] == (1,)
    assert "layout_free_buffers" not in suite.workload("tall_product").attrs


def test_names_are_read_in_capitals_or_not() -> None:
    assert suite.find("LAYER_NORM").name == "layer_norm" and suite.find("gmm").name == "GMM"
    assert suite.theme("sort") == "second" and suite.theme("gmm") == "operators"


def test_integers_must_agree_exactly() -> None:
    expected = np.arange(6)
    assert data.error_of(expected.astype("int32"), expected) == 0.0
    with pytest.raises(ValueError, match="1 of 6 integers differ"):
        data.error_of(np.array([0, 1, 2, 3, 4, 6]), expected)
