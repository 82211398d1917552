"""ONNX Runtime as the reference: sessions of it, and what they give for a build's inputs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..error import TunerError

OnnxSource = Path | bytes
"""An ONNX model: a file, or a serialized ``ModelProto``."""


def flatten(result: object) -> list[np.ndarray]:
    """All arrays of a result, depth first."""
    if isinstance(result, list | tuple):
        return [array for item in result for array in flatten(item)]
    return [result.numpy() if hasattr(result, "numpy") else np.asarray(result)]


def require_onnxruntime() -> Any:
    """The onnxruntime package.

    Raises:
        TunerError: it is not installed.
    """
    try:
        import onnxruntime
    except ImportError as error:
        raise TunerError(f"comparing needs ONNX Runtime: pip install 'loopsmith[onnx]' ({error})") from error
    return onnxruntime


def run_session(session: Any, names: Sequence[str], arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    """The outputs of an ONNX Runtime session for inputs in their order.

    Raises:
        TunerError: the model takes other inputs.
    """
    if len(names) != len(arrays):
        raise TunerError(
            f"the ONNX model takes {len(names)} inputs ({', '.join(names)}), the library {len(arrays)};"
            " they are not the same model"
        )
    try:
        outputs: list[np.ndarray] = session.run(None, dict(zip(names, arrays, strict=True)))
    except Exception as error:  # onnxruntime raises its own classes, which share no public base
        raise TunerError(
            "ONNX Runtime cannot run the ONNX model on the library's inputs; name the file that the library was built from"
            f" ({error})"
        ) from error
    return outputs


def onnx_session(source: OnnxSource, threads: int) -> Any:
    """An ONNX Runtime session on the CPU; ``threads`` 0 takes ONNX Runtime's default.

    Raises:
        TunerError: ONNX Runtime is not installed, there is no such file, or ONNX Runtime cannot load the model.
    """
    onnxruntime = require_onnxruntime()
    if isinstance(source, Path) and not source.is_file():
        raise TunerError(f"there is no file {source} to compare with")
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    if threads:
        options.intra_op_num_threads = threads
    model = str(source) if isinstance(source, Path) else source
    try:
        return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # onnxruntime raises its own classes, which share no public base
        shown = source if isinstance(source, Path) else "the exported model"
        raise TunerError(f"ONNX Runtime cannot load {shown}: {error}") from error
