"""The same operators in other libraries, for comparisons: PyTorch eager and ONNX Runtime with constant weights.

Each function gets the suite's input arrays (channels-last layouts) and gives a call that computes the operator once. Layout
conversions of weights happen beforehand, as a deployed model would have them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

Call = Callable[[], Any]


def torch_call(name: str, shape: Sequence[int], arrays: Sequence[np.ndarray], threads: int) -> Call:
    """PyTorch eager in inference mode; convolutions on channels-last tensors."""
    import torch
    import torch.nn.functional as F

    torch.set_num_threads(threads)
    torch.set_grad_enabled(False)
    x, *rest = [torch.from_numpy(np.ascontiguousarray(item)) for item in arrays]
    if name in ("C1D", "C2D", "C3D", "GRP", "DIL", "CBR"):
        dim = {"C1D": 1, "C3D": 3}.get(name, 2)
        stride, padding, dilation, groups = _window(name, shape)
        conv = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}[dim]
        image = x.movedim(-1, 1)  # a channels-last view: no copy
        weight = rest[0].permute(dim + 1, dim, *range(dim)).contiguous(memory_format=_format(dim))
        if name != "CBR":
            return lambda: conv(image, weight, None, stride, padding, dilation, groups)
        bias, scale, offset = rest[1:]
        # Batch norm folded into weights and bias, as any deployment does it.
        folded = (weight * scale[:, None, None, None]).contiguous(memory_format=_format(2))
        shifted = bias * scale + offset
        return lambda: F.relu(conv(image, folded, shifted, stride, padding, dilation, groups))
    if name == "DEP":
        stride, padding = shape[5], shape[6]
        weight = rest[0].permute(2, 3, 0, 1).contiguous(memory_format=torch.channels_last)
        image = x.movedim(-1, 1)
        return lambda: F.conv2d(image, weight, None, stride, padding, 1, shape[3])
    if name == "T2D":
        image = x.movedim(-1, 1)
        weight = rest[0].permute(2, 3, 0, 1).contiguous(memory_format=torch.channels_last)
        return lambda: F.conv_transpose2d(image, weight, None, shape[6], shape[7])
    if name == "GMM":
        return lambda: torch.matmul(x, rest[0])
    if name == "TBG":
        a, b = x.permute(0, 2, 1, 3), rest[0].permute(0, 2, 3, 1)
        return lambda: torch.matmul(a, b)
    if name == "NRM":
        return lambda: torch.linalg.matrix_norm(x)
    if name == "SFM":
        return lambda: torch.softmax(x, dim=1)
    raise KeyError(f"PyTorch has no operator for {name}")


def _format(dim: int) -> Any:
    import torch

    return {1: torch.contiguous_format, 2: torch.channels_last, 3: torch.channels_last_3d}[dim]


def _window(name: str, shape: Sequence[int]) -> tuple[int, int, int, int]:
    """(stride, padding, dilation, groups) of a convolution row."""
    first = {"C1D": 5, "C3D": 7}.get(name, 6)
    stride, padding = shape[first], shape[first + 1]
    dilation = shape[first + 2] if len(shape) > first + 2 else 1
    groups = shape[first + 3] if len(shape) > first + 3 else 1
    return stride, padding, dilation, groups


def onnxruntime_call(name: str, shape: Sequence[int], arrays: Sequence[np.ndarray], threads: int) -> Call:
    """ONNX Runtime on the CPU, weights constant (packed when the session is made), channels first as ONNX has it."""
    import onnxruntime
    from onnx import TensorProto, helper, numpy_helper

    x = arrays[0]
    constants: list[Any] = []
    if name in ("C1D", "C2D", "C3D", "GRP", "DIL", "CBR", "DEP"):
        dim = {"C1D": 1, "C3D": 3}.get(name, 2)
        if name == "DEP":
            stride, padding, dilation, groups = shape[5], shape[6], 1, shape[3]
            weight = np.ascontiguousarray(arrays[1].transpose(2, 3, 0, 1))
        else:
            stride, padding, dilation, groups = _window(name, shape)
            weight = np.ascontiguousarray(arrays[1].transpose(dim + 1, dim, *range(dim)))
        x = np.ascontiguousarray(np.moveaxis(x, -1, 1))
        inputs = ["x", "w"]
        if name == "CBR":
            bias, scale, offset = arrays[2:]
            weight = (weight * scale[:, None, None, None]).astype(np.float32)
            constants.append(numpy_helper.from_array((bias * scale + offset).astype(np.float32), "b"))
            inputs.append("b")
        constants.append(numpy_helper.from_array(weight, "w"))
        nodes = [
            helper.make_node(
                "Conv",
                inputs,
                ["y"],
                strides=[stride] * dim,
                pads=[padding] * (2 * dim),
                dilations=[dilation] * dim,
                group=groups,
            )
        ]
        if name == "CBR":
            nodes = [*nodes, helper.make_node("Relu", ["y"], ["z"])]
    elif name == "GMM":
        constants.append(numpy_helper.from_array(arrays[1], "w"))
        nodes = [helper.make_node("MatMul", ["x", "w"], ["y"])]
    elif name == "SFM":
        nodes = [helper.make_node("Softmax", ["x"], ["y"], axis=1)]
    elif name == "NRM":
        nodes = [helper.make_node("ReduceL2", ["x"], ["y"], axes=[1, 2], keepdims=0)]
    else:
        raise KeyError(f"ONNX Runtime has no single operator for {name}")
    out = nodes[-1].output[0]
    graph = helper.make_graph(
        nodes,
        "row",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, list(x.shape))],
        [helper.make_tensor_value_info(out, TensorProto.FLOAT, None)],
        constants,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    return lambda: session.run(None, {"x": x})


def peak_call(threads: int) -> tuple[Call, float]:
    """Independent fused multiply-adds on every core, from our own code generator: the call, and its operations."""
    from ir import tir
    from ir.codegen.build import build
    from ir.target import Target
    from ir.tir import ForKind

    target = Target("cpu")
    lanes, chains, steps = target.vector_bits // 32, 16, 400_000
    out = tir.decl_buffer((threads * 8, chains, lanes), "float32", "out")
    accumulator = tir.decl_buffer((chains, lanes), "float32", "accumulator", scope="local")
    job, step, chain, lane = (tir.Var(name, "int32") for name in ("job", "step", "chain", "lane"))

    def nest(body: tir.Stmt) -> tir.Stmt:
        inner = tir.For(lane, 0, lanes, ForKind.VECTORIZED, body)
        return tir.For(chain, 0, chains, ForKind.UNROLLED, inner)

    one, small = tir.const(0.999, "float32"), tir.const(0.001, "float32")
    start = nest(tir.BufferStore(accumulator, out[job, chain, lane], (chain, lane)))
    update = nest(tir.BufferStore(accumulator, accumulator[chain, lane] * one + small, (chain, lane)))
    finish = nest(tir.BufferStore(out, accumulator[chain, lane], (job, chain, lane)))
    body = tir.SeqStmt([start, tir.For(step, 0, steps, ForKind.SERIAL, update), finish])
    allocated = tir.Allocate(
        accumulator.data, "float32", (chains, lanes), tir.const(True), tir.DeclBuffer(accumulator, body)
    )
    loop = tir.For(job, 0, threads * 8, ForKind.PARALLEL, allocated)
    native = build(tir.PrimFunc([out], loop), target)
    array = np.zeros((threads * 8, chains, lanes), np.float32)
    return lambda: native["main"](array), 2.0 * threads * 8 * chains * lanes * steps
