"""The suites' operators in other libraries: PyTorch, torch.compile, ONNX Runtime with constant weights, and numpy.

Each function prepares one row in a process of its own and gives the call that is timed. Weights are converted beforehand, as a
deployed model would have them. A library without the operator raises KeyError, which is its result.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..harness.child import Ready
from . import data, first_suite_peers, peer_forms, suite
from .peer_forms import OnnxForm, TorchForm


def forms(name: str) -> Any:
    """The module that knows the forms of a row: those of its own declaration, or of the first suite."""
    return first_suite_peers if suite.find(name).peers is None else peer_forms


def torch_module(form: TorchForm) -> Any:
    """The row's function as a module that holds the weights."""
    import torch

    class Row(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            for number, weight in enumerate(form.weights):
                self.register_buffer(f"w{number}", weight)
            self.compute = form.compute
            self.names = [f"w{number}" for number in range(len(form.weights))]

        def forward(self, *activations: Any) -> Any:
            return self.compute(*activations, *[getattr(self, name) for name in self.names])

    return Row().eval()


def torch_array(tensor: Any) -> np.ndarray:
    import torch

    # numpy has no bfloat16; float32 holds its numbers
    return np.asarray((tensor.float() if tensor.dtype == torch.bfloat16 else tensor).numpy())


def torch(name: str, shape: Sequence[int], arrays: str, threads: int, mode: str = "eager") -> Ready:
    """PyTorch in inference mode; ``mode``: "eager", "compile", or "max" for max-autotune with frozen weights."""
    import torch as library

    library.set_num_threads(threads)
    inputs, expected = data.read(arrays)
    form: TorchForm = forms(name).torch_form(name, shape, inputs)
    module, activations = torch_module(form), form.activations
    if mode == "max":
        import torch._inductor.config as inductor

        inductor.freezing = True
        module = library.compile(module, mode="max-autotune")
    elif mode == "compile":
        module = library.compile(module)

    def call() -> Any:
        with library.inference_mode():
            return module(*activations)

    # freezing wants to know that no gradient is asked for while it compiles
    with library.no_grad():
        found = torch_array(module(*activations))
    error = data.error_of(form.convert(found), expected)
    return Ready(call, {"error": error, "version": library.__version__})


def onnx_model(form: OnnxForm, dtype: np.dtype[Any]) -> bytes:
    """A model of the row's nodes with an output of a dtype, in which the weights are constants."""
    from onnx import helper, numpy_helper

    def declared(name: str, kind: np.dtype[Any], extents: Sequence[int] | None) -> Any:
        return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(kind), extents)

    graph = helper.make_graph(
        form.nodes,
        "row",
        [declared(key, value.dtype, value.shape) for key, value in form.feed.items()],
        [declared(form.output, dtype, None)],
        [numpy_helper.from_array(np.ascontiguousarray(value), key) for key, value in form.weights.items()],
    )
    opsets = [helper.make_opsetid("", form.opset)]
    return bytes(helper.make_model(graph, opset_imports=opsets, ir_version=9).SerializeToString())


def onnxruntime(name: str, shape: Sequence[int], arrays: str, threads: int) -> Ready:
    """ONNX Runtime on the CPU, weights constant (packed when the session is made)."""
    import onnxruntime as library

    inputs, expected = data.read(arrays)
    form: OnnxForm = forms(name).onnx_form(name, shape, inputs)
    options = library.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3
    session = library.InferenceSession(
        onnx_model(form, expected.dtype), options, providers=["CPUExecutionProvider"]
    )
    error = data.error_of(form.convert(session.run(None, form.feed)[0]), expected)
    return Ready(lambda: session.run(None, form.feed), {"error": error, "version": library.__version__})


def numpy(name: str, shape: Sequence[int], arrays: str, threads: int) -> Ready:
    """numpy where it has the operator: products through its BLAS, norms and softmax by hand."""
    compute = forms(name).numpy_form(name, shape)
    inputs, expected = data.read(arrays)
    error = data.error_of(compute(*inputs), expected)
    return Ready(lambda: compute(*inputs), {"error": error, "version": np.__version__})
