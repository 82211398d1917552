"""Every peer computes what the suite's references say, in the suite's layout."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from experiments.operators import data, first_suite, peers
from experiments.operators.small_shapes import FIRST as SMALL


@pytest.fixture(scope="module")
def arrays(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("rows")
    for name, shape in SMALL.items():
        data.write(folder / f"{name}.npz", name, shape)
    return folder


@pytest.mark.parametrize("name", list(first_suite.WORKLOADS))
@pytest.mark.parametrize("peer", ["torch", "onnxruntime"])
def test_libraries(arrays: Path, name: str, peer: str) -> None:
    pytest.importorskip(peer)
    ready = getattr(peers, peer)(name, SMALL[name], str(arrays / f"{name}.npz"), threads=1)
    assert ready.facts["error"] < 1e-5
    ready.call()


def test_numpy_where_it_has_the_operator(arrays: Path) -> None:
    assert peers.numpy("SFM", SMALL["SFM"], str(arrays / "SFM.npz"), 1).facts["error"] < 1e-5
    with pytest.raises(KeyError, match="numpy has no operator for C2D"):
        peers.numpy("C2D", SMALL["C2D"], str(arrays / "C2D.npz"), 1)


def test_wrong_results_are_refused() -> None:
    expected = np.ones((2, 2))
    assert data.error_of(expected + 1e-6, expected) < 1e-5
    for wrong in (expected * 2, expected * np.nan, np.ones((2, 3))):
        with pytest.raises(ValueError, match="wrong|shape"):
            data.error_of(wrong, expected)
