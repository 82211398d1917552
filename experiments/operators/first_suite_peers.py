"""The first suite in other libraries: convolutions have layouts of their own there, weights are converted beforehand.

A library without the operator raises KeyError, which is its result.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .first_suite import softmax_by_numpy
from .peer_forms import Convert, OnnxForm, TorchForm, channels_last, same, torch_tensor


def _dims(name: str) -> int:
    return {"C1D": 1, "C3D": 3}.get(name, 2)


def _window(name: str, shape: Sequence[int]) -> tuple[int, int, int, int]:
    """(stride, padding, dilation, groups) of a convolution row."""
    if name == "DEP":
        return shape[5], shape[6], 1, shape[3]
    first = {"C1D": 5, "C3D": 7}.get(name, 6)
    stride, padding = shape[first], shape[first + 1]
    dilation = shape[first + 2] if len(shape) > first + 2 and name != "CAP" else 1
    groups = shape[first + 3] if len(shape) > first + 3 else 1
    return stride, padding, dilation, groups


CONVOLUTIONS = ("C1D", "C2D", "C3D", "GRP", "DIL", "CBR", "DEP")


def _weights(name: str, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Constants as other libraries want them: kernels channels first, batch normalization folded into them."""
    if name in CONVOLUTIONS:
        dim = _dims(name)
        # the depthwise kernel lists channels, then the multiplier; their order of outputs is the same
        order = (2, 3, 0, 1) if name == "DEP" else (dim + 1, dim, *range(dim))
        kernel = np.ascontiguousarray(arrays[1].transpose(order))
        if name == "DEP":
            kernel = kernel.reshape(-1, 1, *kernel.shape[2:])
        if name != "CBR":
            return [kernel]
        bias, scale, offset = arrays[2:]
        return [kernel * scale[:, None, None, None], bias * scale + offset]
    if name == "T2D":
        return [np.ascontiguousarray(arrays[1].transpose(2, 3, 0, 1))]
    if name == "CAP":
        # (kh, kw, inner, j, CI, CO) to one kernel (j CO, inner CI, kh, kw): capsule rows go into the batch
        kernel = arrays[1].transpose(3, 5, 2, 4, 0, 1)
        j, co, inner, ci, kh, kw = kernel.shape
        return [np.ascontiguousarray(kernel.reshape(j * co, inner * ci, kh, kw))]
    return list(arrays[1:])


def _capsule_output(arrays: Sequence[np.ndarray]) -> Convert:
    n, _, _, i, _, _ = arrays[0].shape
    _, _, _, j, _, co = arrays[1].shape
    return lambda y: y.reshape(n, i, j, co, *y.shape[2:]).transpose(0, 4, 5, 1, 2, 3)


def _torch_compute(name: str, shape: Sequence[int], arrays: Sequence[np.ndarray]) -> Callable[..., Any]:
    """The operator on the input and the weights."""
    import torch
    import torch.nn.functional as F

    if name in CONVOLUTIONS:
        conv: Any = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}[_dims(name)]
        stride, padding, dilation, groups = _window(name, shape)
        if name == "CBR":
            return lambda x, w, b: F.relu(conv(x, w, b, stride, padding, dilation, groups))
        return lambda x, w: conv(x, w, None, stride, padding, dilation, groups)
    if name == "T2D":
        return lambda x, w: F.conv_transpose2d(x, w, None, shape[6], shape[7])
    if name == "CAP":
        n, h, w, i, inner, ci = arrays[0].shape
        stride, padding, _, _ = _window(name, shape)
        rows = (n * i, inner * ci, h, w)
        return lambda x, k: F.conv2d(x.permute(0, 3, 4, 5, 1, 2).reshape(rows), k, None, stride, padding)
    if name == "GMM":
        return torch.matmul
    if name == "TBG":
        return lambda a, b: torch.matmul(a.permute(0, 2, 1, 3), b.permute(0, 2, 3, 1))
    if name == "NRM":
        return torch.linalg.matrix_norm
    if name == "SFM":
        return lambda a: torch.softmax(a, dim=1)
    raise KeyError(f"PyTorch has no operator for {name}")


def torch_form(name: str, shape: Sequence[int], arrays: Sequence[np.ndarray]) -> TorchForm:
    """A row in PyTorch: images as channels-last views, weights in the same format."""
    import torch

    x = torch.from_numpy(arrays[0])
    weights = [torch_tensor(item) for item in _weights(name, arrays)]
    convert: Convert = same
    if name in (*CONVOLUTIONS, "T2D", "CAP"):
        formats = {4: torch.channels_last, 5: torch.channels_last_3d}
        weights[0] = weights[0].contiguous(
            memory_format=formats.get(weights[0].ndim, torch.contiguous_format)
        )
    if name in (*CONVOLUTIONS, "T2D"):
        x, convert = x.movedim(-1, 1), channels_last  # a channels-last view: no copy
    elif name == "CAP":
        convert = _capsule_output(arrays)
    return TorchForm(_torch_compute(name, shape, arrays), [x], weights, convert)


def onnx_form(name: str, shape: Sequence[int], arrays: Sequence[np.ndarray]) -> OnnxForm:
    """A row in ONNX: channels first as ONNX has it."""
    from onnx import helper

    x = arrays[0]
    convert: Convert = same
    weights = [np.ascontiguousarray(item) for item in _weights(name, arrays)]
    names = [f"w{number}" for number in range(len(weights))]
    node = helper.make_node
    if name in (*CONVOLUTIONS, "T2D", "CAP"):
        dim, (stride, padding, dilation, groups) = _dims(name), _window(name, shape)
        facts = {"strides": [stride] * dim, "pads": [padding] * (2 * dim)}
    if name in CONVOLUTIONS:
        x, convert = np.ascontiguousarray(np.moveaxis(x, -1, 1)), channels_last
        nodes = [
            node("Conv", ["x", *names], ["y"], dilations=[dilation] * dim, group=groups, **facts),
            *([node("Relu", ["y"], ["z"])] if name == "CBR" else []),
        ]
    elif name == "T2D":
        x, convert = np.ascontiguousarray(np.moveaxis(x, -1, 1)), channels_last
        nodes = [node("ConvTranspose", ["x", "w0"], ["y"], strides=facts["strides"], pads=facts["pads"])]
    elif name == "CAP":
        n, h, w, i, inner, ci = x.shape
        weights.append(np.array([n * i, inner * ci, h, w], "int64"))
        names.append("shape")
        convert = _capsule_output(arrays)
        nodes = [
            node("Transpose", ["x"], ["t"], perm=[0, 3, 4, 5, 1, 2]),
            node("Reshape", ["t", "shape"], ["r"]),
            node("Conv", ["r", "w0"], ["y"], **facts),
        ]
    elif name == "GMM":
        nodes = [node("MatMul", ["x", "w0"], ["y"])]
    elif name == "TBG":
        nodes = [
            node("Transpose", ["x"], ["a"], perm=[0, 2, 1, 3]),
            node("Transpose", ["b"], ["c"], perm=[0, 2, 3, 1]),
            node("MatMul", ["a", "c"], ["y"]),
        ]
    elif name == "SFM":
        nodes = [node("Softmax", ["x"], ["y"], axis=1)]
    elif name == "NRM":
        nodes = [node("ReduceL2", ["x"], ["y"], axes=[1, 2], keepdims=0)]
    else:
        raise KeyError(f"ONNX Runtime has no operator for {name}")
    feed = {"x": x}
    if name == "TBG":  # both are activations of the model
        feed["b"], weights, names = weights[0], [], []
    return OnnxForm(nodes, feed, dict(zip(names, weights, strict=True)), convert, output=nodes[-1].output[0])


_NUMPY: dict[str, Callable[..., np.ndarray]] = {
    "GMM": np.matmul,
    "TBG": lambda a, b: np.matmul(a.transpose(0, 2, 1, 3), b.transpose(0, 2, 3, 1)),
    "NRM": lambda a: np.linalg.norm(a, axis=(1, 2)),
    "SFM": lambda a: softmax_by_numpy([a], *a.shape),
}


def numpy_form(name: str, shape: Sequence[int]) -> Callable[..., np.ndarray]:
    """A row in numpy: products through its BLAS, norms, softmax by hand."""
    if name not in _NUMPY:
        raise KeyError(f"numpy has no operator for {name}")
    return _NUMPY[name]
