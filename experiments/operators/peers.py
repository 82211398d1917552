"""The suite's operators in other libraries: PyTorch, torch.compile, ONNX Runtime with constant weights, and numpy.

Each function prepares one row in a process of its own and gives the call that is timed. Inputs come in the suite's
channels-last layouts; weights are converted beforehand, as a deployed model would have them. A library without the
operator raises KeyError, which is its result.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..harness.child import Ready
from . import data

Convert = Callable[[np.ndarray], np.ndarray]
"""From the library's layout of the output to the suite's."""


def _same(y: np.ndarray) -> np.ndarray:
    return y


def _channels_last(y: np.ndarray) -> np.ndarray:
    return np.moveaxis(y, 1, -1)


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


def _capsule_output(expected: np.ndarray) -> Convert:
    n, h, w, i, j, co = expected.shape
    return lambda y: y.reshape(n, i, j, co, h, w).transpose(0, 4, 5, 1, 2, 3)


# ---- PyTorch ----------------------------------------------------------------------------------------------------


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


def _torch_module(name: str, shape: Sequence[int], arrays: Sequence[np.ndarray]) -> tuple[Any, Any]:
    """(module with the weights in it, its input)."""
    import torch

    class Row(torch.nn.Module):
        def __init__(self, compute: Callable[..., Any], weights: Sequence[Any]) -> None:
            super().__init__()
            self.compute = compute
            for number, weight in enumerate(weights):
                self.register_buffer(f"w{number}", weight)
            self.names = [f"w{number}" for number in range(len(weights))]

        def forward(self, x: Any) -> Any:
            return self.compute(x, *[getattr(self, name) for name in self.names])

    x = torch.from_numpy(arrays[0])
    weights = [torch.from_numpy(np.ascontiguousarray(item)) for item in _weights(name, arrays)]
    if name in (*CONVOLUTIONS, "T2D", "CAP"):
        formats = {4: torch.channels_last, 5: torch.channels_last_3d}
        weights[0] = weights[0].contiguous(
            memory_format=formats.get(weights[0].ndim, torch.contiguous_format)
        )
    if name in (*CONVOLUTIONS, "T2D"):
        x = x.movedim(-1, 1)  # a channels-last view: no copy
    return Row(_torch_compute(name, shape, arrays), weights).eval(), x


def _torch_output(name: str, expected: np.ndarray) -> Convert:
    if name == "CAP":
        return _capsule_output(expected)
    return _channels_last if name in (*CONVOLUTIONS, "T2D") else _same


def torch(name: str, shape: Sequence[int], arrays: str, threads: int, mode: str = "eager") -> Ready:
    """PyTorch in inference mode; ``mode``: "eager", "compile", or "max" for max-autotune with frozen weights."""
    import torch as library

    library.set_num_threads(threads)
    inputs, expected = data.read(arrays)
    module, x = _torch_module(name, shape, inputs)
    if mode == "max":
        import torch._inductor.config as inductor

        inductor.freezing = True
        module = library.compile(module, mode="max-autotune")
    elif mode == "compile":
        module = library.compile(module)

    def call() -> Any:
        with library.inference_mode():
            return module(x)

    # freezing wants to know that no gradient is asked for while it compiles
    with library.no_grad():
        found = module(x).numpy()
    error = data.error_of(_torch_output(name, expected)(found), expected)
    return Ready(call, {"error": error, "version": library.__version__})


# ---- ONNX Runtime -----------------------------------------------------------------------------------------------


def onnxruntime(name: str, shape: Sequence[int], arrays: str, threads: int) -> Ready:
    """ONNX Runtime on the CPU, weights constant (packed when the session is made), channels first as ONNX has it."""
    import onnxruntime as library
    from onnx import TensorProto, helper, numpy_helper

    inputs, expected = data.read(arrays)
    x = inputs[0]
    convert: Convert = _same
    weights = [np.ascontiguousarray(item) for item in _weights(name, inputs)]
    names = [f"w{number}" for number in range(len(weights))]
    node = helper.make_node
    if name in (*CONVOLUTIONS, "T2D", "CAP"):
        dim, (stride, padding, dilation, groups) = _dims(name), _window(name, shape)
        facts = {"strides": [stride] * dim, "pads": [padding] * (2 * dim)}
    if name in CONVOLUTIONS:
        x, convert = np.ascontiguousarray(np.moveaxis(x, -1, 1)), _channels_last
        nodes = [
            node("Conv", ["x", *names], ["y"], dilations=[dilation] * dim, group=groups, **facts),
            *([node("Relu", ["y"], ["z"])] if name == "CBR" else []),
        ]
    elif name == "T2D":
        x, convert = np.ascontiguousarray(np.moveaxis(x, -1, 1)), _channels_last
        nodes = [node("ConvTranspose", ["x", "w0"], ["y"], strides=facts["strides"], pads=facts["pads"])]
    elif name == "CAP":
        n, h, w, i, inner, ci = x.shape
        weights.append(np.array([n * i, inner * ci, h, w], "int64"))
        names.append("shape")
        convert = _capsule_output(expected)
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
    graph = helper.make_graph(
        nodes,
        "row",
        [helper.make_tensor_value_info(key, TensorProto.FLOAT, value.shape) for key, value in feed.items()],
        [helper.make_tensor_value_info(nodes[-1].output[0], TensorProto.FLOAT, None)],
        [numpy_helper.from_array(weight, key) for weight, key in zip(weights, names, strict=True)],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    options = library.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3
    session = library.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    error = data.error_of(convert(session.run(None, feed)[0]), expected)
    return Ready(lambda: session.run(None, feed), {"error": error, "version": library.__version__})


# ---- numpy ------------------------------------------------------------------------------------------------------


def _np_softmax(a: np.ndarray) -> np.ndarray:
    e = np.exp(a - a.max(1, keepdims=True))
    return np.asarray(e / e.sum(1, keepdims=True))


_NUMPY: dict[str, Callable[..., np.ndarray]] = {
    "GMM": np.matmul,
    "TBG": lambda a, b: np.matmul(a.transpose(0, 2, 1, 3), b.transpose(0, 2, 3, 1)),
    "NRM": lambda a: np.linalg.norm(a, axis=(1, 2)),
    "SFM": _np_softmax,
}


def numpy(name: str, shape: Sequence[int], arrays: str, threads: int) -> Ready:
    """numpy where it has the operator: products through its BLAS, norms, softmax by hand."""
    if name not in _NUMPY:
        raise KeyError(f"numpy has no operator for {name}")
    inputs, expected = data.read(arrays)
    compute = _NUMPY[name]
    error = data.error_of(compute(*inputs), expected)
    return Ready(lambda: compute(*inputs), {"error": error, "version": np.__version__})
