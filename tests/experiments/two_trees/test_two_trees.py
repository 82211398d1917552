"""The comparison of two trees, with this one as both."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from experiments.two_trees.__main__ import main
from experiments.two_trees.trees import Trees

HERE = Path(__file__).resolve().parents[3]
RATIO = r"\d+\.\d{3}\*? \(\d+\.\d{3}\)"


def options(scratch: Path) -> list[str]:
    """As little as can be measured."""
    return ["--trials", "2", "--rounds", "1", "--threads", "1", "--scratch", str(scratch)]


def test_candidates_of_both_searches_are_timed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(HERE), "GMM:1,16,16,16", "--best", "1", *options(tmp_path)]) == 0
    here, there, mean = capsys.readouterr().out.splitlines()
    assert re.fullmatch(f"GMM 1x16x16x16 here 1: {RATIO}", here)
    assert re.fullmatch(f"GMM 1x16x16x16 there 1: {RATIO}", there)
    assert re.fullmatch(r"2 compared: geometric mean \d+\.\d{3} of the time there", mean)


def test_models_are_timed_untuned_and_tuned(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    weights = numpy_helper.from_array(np.eye(8, dtype="float32"), "w")
    value = partial(helper.make_tensor_value_info, elem_type=TensorProto.FLOAT, shape=[4, 8])
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"])], "product", [value("x")], [value("y")], [weights]
    )
    path = tmp_path / "product.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)
    assert main([str(HERE), str(path), *options(tmp_path)]) == 0
    default, tuned, mean = capsys.readouterr().out.splitlines()
    assert re.fullmatch(f"product default: {RATIO}", default)
    assert re.fullmatch(f"product tuned: {RATIO}", tuned)
    assert mean.startswith("2 compared: ")
    assert len(list(tmp_path.glob("product-*-2-trials-1-threads.db"))) == 1  # both trees are this one


def test_trials_that_fail_are_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where all of them do, what both trees compile then is the program without a schedule."""
    for failed, told in ((8, "C3D here: 8 of 8 trials failed\n"), (0, "")):
        monkeypatch.setattr(Trees, "run", lambda *given, n=failed: {"failed": n, "trials": 8})
        Trees(HERE, tmp_path, trials=8, rounds=1, threads=1).tune("C3D", "here", HERE, "tune", {})
        assert capsys.readouterr().out == told


def test_what_is_no_checkout_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main([str(tmp_path), "GMM"])
    assert "is no checkout of this repository" in capsys.readouterr().err
