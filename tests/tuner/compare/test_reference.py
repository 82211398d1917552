"""Outputs as arrays, and what is said when there is no reference."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from tuner.compare.reference import flatten, onnx_session
from tuner.error import TunerError


def test_flatten_goes_depth_first() -> None:
    assert [int(item) for item in flatten((np.array(1), [np.array(2), (np.array(3),)]))] == [1, 2, 3]


def test_what_is_missing_or_broken_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("onnxruntime")
    with pytest.raises(TunerError, match="no file .*missing.onnx"):
        onnx_session(tmp_path / "missing.onnx", threads=1)
    with pytest.raises(TunerError, match="cannot load the exported model"):
        onnx_session(b"nonsense", threads=1)
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(TunerError, match="pip install"):
        onnx_session(b"", threads=1)
