"""The functions of the nn library: what they emit, and their results against numpy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from ir import te
from ir.relax.frontend import nn
from ir.relax.frontend.nn import op, spec
from ir.relax.frontend.nn.error import NNTypeError
from ir.relax.testing import evaluate
from ir.script import tir as T
from tests.ir.relax.frontend.operators import op_names

RNG = np.random.default_rng(0)


def rand(*shape: int) -> np.ndarray:
    return RNG.uniform(0.1, 2.0, shape).astype(np.float32)


def export(function: Callable[..., Any], *arrays: np.ndarray) -> Any:
    """The module with one method ``test`` that applies a function to tensors of the arrays' shapes."""

    class Model(nn.Module):
        def test(self, *args: nn.Tensor) -> Any:
            return function(*args)

    names = [f"x{i}" for i in range(len(arrays))]
    method = Model().test
    specs = [spec.Tensor(list(array.shape), array.dtype.name) for array in arrays]
    described = spec.MethodSpec(lambda **named: method(*named.values()), names, specs)
    module = Model()
    return module.export_tvm(spec=spec.ModuleSpec(module, ["test"], [described]))[0]


def run(function: Callable[..., Any], *arrays: np.ndarray) -> Any:
    return evaluate(export(function, *arrays), *arrays, name="test")


A, B = rand(2, 3, 4), rand(2, 3, 4)
CASES: list[tuple[str, Callable[..., Any], tuple[np.ndarray, ...], Callable[..., Any]]] = [
    ("add", op.add, (A, B), np.add),
    ("subtract", op.subtract, (A, B), np.subtract),
    ("multiply", op.multiply, (A, B[:1]), np.multiply),
    ("divide", op.divide, (A, B), np.divide),
    ("maximum", op.maximum, (A, B), np.maximum),
    ("minimum", op.minimum, (A, B), np.minimum),
    ("negative", op.negative, (A,), np.negative),
    ("square", op.square, (A,), np.square),
    ("sqrt", op.sqrt, (A,), np.sqrt),
    ("exp", op.exp, (A,), np.exp),
    ("log", op.log, (A,), np.log),
    ("floor", op.floor, (A,), np.floor),
    ("tanh", op.tanh, (A,), np.tanh),
    ("sigmoid", op.sigmoid, (A,), lambda a: 1 / (1 + np.exp(-a))),
    ("less", op.less, (A, B), np.less),
    ("less_equal", op.less_equal, (A, B), np.less_equal),
    ("greater", op.greater, (A, B), np.greater),
    ("greater_equal", op.greater_equal, (A, B), np.greater_equal),
    ("equal", op.equal, (A, A), np.equal),
    ("not_equal", op.not_equal, (A, B), np.not_equal),
    ("sum", lambda x: op.sum(x, [1, 2], keepdims=True), (A,), lambda a: a.sum((1, 2), keepdims=True)),
    ("sum all", lambda x: op.sum(x), (A,), lambda a: a.sum()),
    ("max", lambda x: op.max(x, -1), (A,), lambda a: a.max(-1)),
    ("min", lambda x: op.min(x, 0), (A,), lambda a: a.min(0)),
    ("matmul", op.matmul, (A, rand(4, 5)), np.matmul),
    ("where", op.where, (A > 1, A, B), np.where),
    ("where integers", op.where, (np.array([0, 2]), A[0, 0, :2], B[0, 0, :2]), np.where),
    (
        "cumsum axis 0",
        lambda x: op.cumsum(x, axis=0),
        (np.arange(1, 7).reshape(2, 3),),
        lambda a: np.cumsum(a, 0),
    ),
    ("sort", lambda x: op.sort(x, 1, descending=True), (A,), lambda a: -np.sort(-a, 1)),
    ("argsort", lambda x: op.argsort(x, 1), (A,), lambda a: np.argsort(a, 1).astype("int32")),
    ("unsqueeze", lambda x: op.unsqueeze(x, 0), (A,), lambda a: a[None]),
    ("squeeze", lambda x: op.squeeze(x, 0), (A[:1],), lambda a: a[0]),
    ("concat", lambda x, y: op.concat([x, y], 1), (A, B), lambda a, b: np.concatenate([a, b], 1)),
    (
        "broadcast_to",
        lambda x: op.broadcast_to(x, [2, 3, 4]),
        (A[:, :1],),
        lambda a: np.broadcast_to(a, (2, 3, 4)),
    ),
    ("permute_dims", lambda x: op.permute_dims(x, [2, 1, 0]), (A,), lambda a: a.transpose(2, 1, 0)),
    ("permute", lambda x: op.permute(x, None), (A,), np.transpose),
    ("reshape", lambda x: op.reshape(x, [6, 1, -1]), (A,), lambda a: a.reshape(6, 1, 4)),
    ("repeat", lambda x: op.repeat(x, 2, 1), (A,), lambda a: np.repeat(a, 2, 1)),
    ("repeat flat", lambda x: op.repeat(x, 2), (A,), lambda a: np.repeat(a, 2)),
    ("take", lambda x, i: op.take(x, i, 2), (A, np.array([0, 3])), lambda a, i: np.take(a, i, 2)),
    ("astype", lambda x: op.astype(x, "float16"), (A,), lambda a: a.astype("float16")),
    (
        "pad",
        lambda x: op.pad(x, [0, 0, 1, 2, 0, 0], value=1.0),
        (A,),
        lambda a: np.pad(a, ((0, 0), (1, 2), (0, 0)), constant_values=1),
    ),
    ("triu", lambda x: op.triu(x, 1), (A,), lambda a: np.triu(a, 1)),
    (
        "full",
        lambda x: op.full([2, 3], nn.Tensor.from_scalar(10, "float32")),
        (A,),
        lambda a: np.full((2, 3), 10, "float32"),
    ),
    ("full number", lambda x: op.full([2], 3, "int32"), (A,), lambda a: np.full(2, 3, "int32")),
    ("zeros", lambda x: op.zeros([2, 3], "float16"), (A,), lambda a: np.zeros((2, 3), "float16")),
    ("ones", lambda x: op.ones([2, 3]), (A,), lambda a: np.ones((2, 3), "float32")),
    ("arange", lambda x: op.arange(2, 8, 3, "int32"), (A,), lambda a: np.arange(2, 8, 3, "int32")),
    ("relu", op.relu, (A - 1,), lambda a: np.maximum(a, 0)),
    ("relu6", op.relu6, (A * 4,), lambda a: np.clip(a, 0, 6)),
    ("silu", op.silu, (A,), lambda a: a / (1 + np.exp(-a))),
    (
        "gelu tanh",
        lambda x: op.gelu(x, approximate="tanh"),
        (A,),
        lambda a: 0.5 * a * (1 + np.tanh(0.7978845608 * (a + 0.044715 * a**3))),
    ),
    ("softmax", lambda x: op.softmax(x, 1), (A,), lambda a: np.exp(a) / np.exp(a).sum(1, keepdims=True)),
    ("operators", lambda x, y: -x + 1 - (2 * y) / x, (A, B), lambda a, b: -a + 1 - 2 * b / a),
    ("reflected", lambda x: (1 - x) * (2 / x), (A,), lambda a: (1 - a) * (2 / a)),
    ("comparisons", lambda x: (x > 1, x <= 1.5), (A,), lambda a: (a > 1, a <= 1.5)),
    (
        "methods",
        lambda x: x.reshape(6, 4).permute_dims(1, 0).maximum(1.0).astype("int32"),
        (A,),
        lambda a: np.maximum(a.reshape(6, 4).T, 1).astype("int32"),
    ),
]


@pytest.mark.parametrize(
    ("function", "arrays", "reference"), [case[1:] for case in CASES], ids=[case[0] for case in CASES]
)
def test_results(function: Callable, arrays: tuple, reference: Callable) -> None:
    got, expected = run(function, *arrays), reference(*arrays)
    for left, right in zip(got, expected, strict=True) if isinstance(expected, tuple) else [(got, expected)]:
        assert left.shape == right.shape and left.dtype == right.dtype
        np.testing.assert_allclose(left, right, rtol=2e-5)


# ---------------------------------------------------------------------------------------- the documents' own examples
def test_cumsum_examples() -> None:
    a = np.array([[1, 2, 3], [4, 5, 6]])
    assert run(lambda x: op.cumsum(x), a).tolist() == [1, 3, 6, 10, 15, 21]
    assert run(lambda x: op.cumsum(x, dtype="float32"), a).dtype == np.float32
    assert run(lambda x: op.cumsum(x, axis=0), a).tolist() == [[1, 2, 3], [5, 7, 9]]
    assert run(lambda x: op.cumsum(x, axis=1), a).tolist() == [[1, 3, 6], [4, 9, 15]]
    flags = np.array([1, 0, 1, 0, 1, 1, 0], bool)
    assert run(lambda x: op.cumsum(x, dtype="int32"), flags).tolist() == [1, 1, 2, 2, 3, 4, 4]


def test_repeat_example() -> None:
    def both(_: nn.Tensor) -> Any:
        x = nn.Tensor.from_const(np.array([[1, 2], [3, 4]]))
        return op.repeat(x, repeats=2), op.repeat(x, repeats=2, axis=1)

    flat, along = run(both, A)
    assert flat.tolist() == [1, 1, 2, 2, 3, 3, 4, 4]
    assert along.tolist() == [[1, 1, 2, 2], [3, 3, 4, 4]]


@pytest.mark.parametrize(
    ("shape", "expected"), [((6, 1, -1), (6, 1, 4)), ((3, -1, 8), (3, 1, 8)), ((-1,), (24,))]
)
def test_reshape_examples(shape: tuple, expected: tuple) -> None:
    assert run(lambda x: op.reshape(x, shape), A).shape == expected


@pytest.mark.parametrize(
    ("function", "argument"),
    [("reshape", "shape"), ("broadcast_to", "shape"), ("permute_dims", "axes"), ("permute", "axes")],
)
def test_one_list_is_not_separate_integers(function: str, argument: str) -> None:
    message = f"{function}: {argument} is one list, .* got {argument} 1 and name 0; write {function}\\(x, \\[1, 0\\]\\)"
    with pytest.raises(NNTypeError, match=message):
        run(lambda x: getattr(op, function)(x, 1, 0), A[0])


# -------------------------------------------------------------------------------------------------- several results
def test_split_and_chunk() -> None:
    x = rand(6, 4)
    halves = run(lambda t: op.chunk(t, 2, 1), x)
    assert [part.shape for part in halves] == [(6, 2), (6, 2)]
    parts = run(lambda t: op.split(t, [1, 3]), x)
    assert [part.shape for part in parts] == [(1, 4), (2, 4), (3, 4)]
    np.testing.assert_array_equal(np.concatenate(parts), x)


def test_topk() -> None:
    x = np.array([[1.0, 3.0, 2.0]], np.float32)
    values, indices = run(lambda t: op.topk(t, 2), x)
    assert values.tolist() == [[3, 2]] and indices.tolist() == [[1, 2]] and indices.dtype == np.int32
    assert run(lambda t: op.topk(t, 1, ret_type="values", largest=False), x).tolist() == [[1]]


def test_results_in_tuples_have_names() -> None:
    mod = export(lambda x: op.chunk(x, 2, 0), rand(2, 2))
    names = [binding.var.name_hint for block in mod["test"].body.blocks for binding in block.bindings]
    assert names[:3] == ["chunk", "chunk_0", "chunk_1"]


# --------------------------------------------------------------------------------------- convolutions, normalizations
def conv2d_reference(x: np.ndarray, w: np.ndarray, stride: int, padding: int) -> np.ndarray:
    x = np.pad(x, ((0, 0), (0, 0), (padding, padding), (padding, padding)))
    kh, kw = w.shape[2:]
    windows = np.lib.stride_tricks.sliding_window_view(x, (kh, kw), axis=(2, 3))[:, :, ::stride, ::stride]
    return np.einsum("bcyxhw,ochw->boyx", windows, w)


def test_conv2d() -> None:
    x, w, b = rand(1, 3, 6, 6), rand(4, 3, 3, 3), rand(4)
    mod = export(lambda x, w, b: op.conv2d(x, w, b, stride=2, padding=1), x, w, b)
    assert op_names(mod, "test") == ["nn.conv2d", "reshape", "add"]
    expected = conv2d_reference(x, w, 2, 1) + b[:, None, None]
    np.testing.assert_allclose(evaluate(mod, x, w, b, name="test"), expected, rtol=1e-4)


def test_conv1d_conv3d_and_transposed() -> None:
    x, w = rand(1, 2, 7), rand(3, 2, 3)
    out = run(lambda x, w: op.conv1d(x, w, padding=1), x, w)
    np.testing.assert_allclose(out, _conv1d(x, w), rtol=1e-4)
    assert run(lambda x, w: op.conv3d(x, w), rand(1, 2, 4, 4, 4), rand(3, 2, 3, 3, 3)).shape == (
        1,
        3,
        2,
        2,
        2,
    )
    up = run(lambda x, w: op.conv1d_transpose(x, w, stride=2, output_padding=1), x, rand(2, 3, 3))
    assert up.shape == (1, 3, (7 - 1) * 2 + 3 + 1)


def _conv1d(x: np.ndarray, w: np.ndarray) -> np.ndarray:
    x = np.pad(x, ((0, 0), (0, 0), (1, 1)))
    return np.einsum("bcxk,ock->box", np.lib.stride_tricks.sliding_window_view(x, w.shape[2], axis=2), w)


def test_normalizations() -> None:
    x, w, b = rand(2, 4, 3), rand(3), rand(3)
    mean, var = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
    normed = (x - mean) / np.sqrt(var + 1e-5)
    np.testing.assert_allclose(
        run(lambda x, w, b: op.layer_norm(x, 3, w, b), x, w, b), normed * w + b, rtol=1e-4, atol=1e-5
    )
    np.testing.assert_allclose(run(lambda x: op.layer_norm(x, 3), x), normed, rtol=1e-4, atol=1e-5)
    rms = x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-5)
    np.testing.assert_allclose(run(lambda x, w: op.rms_norm(x, w, -1), x, w), rms * w, rtol=1e-4)
    image, scale = rand(1, 4, 2, 2), rand(4)
    grouped = image.reshape(1, 2, 2, 2, 2)
    mean, var = grouped.mean((2, 3, 4), keepdims=True), grouped.var((2, 3, 4), keepdims=True)
    expected = ((grouped - mean) / np.sqrt(var + 1e-5)).reshape(image.shape) * scale[:, None, None]
    got = run(lambda x, w: op.group_norm(x, 2, w, None), image, scale)
    np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-5)


def test_attention() -> None:
    q, k, v = rand(1, 3, 2, 4), rand(1, 3, 2, 4), rand(1, 3, 2, 4)
    mod = export(lambda q, k, v: op.scaled_dot_product_attention(q, k, v, is_causal=True), q, k, v)
    assert op_names(mod, "test") == ["nn.attention"]
    scores = np.einsum("bqhd,bkhd->bhqk", q, k) / 2.0
    scores = np.where(np.tril(np.ones((3, 3), bool)), scores, -np.inf)
    weights = np.exp(scores) / np.exp(scores).sum(-1, keepdims=True)
    np.testing.assert_allclose(
        evaluate(mod, q, k, v, name="test"), np.einsum("bhqk,bkhd->bqhd", weights, v), rtol=1e-4
    )


@pytest.mark.parametrize(("flip", "scale"), [(False, 1), (True, 0.5)])
def test_timestep_embedding(flip: bool, scale: float) -> None:
    x = np.array([1, 5, 9], np.int32)
    got = run(
        lambda t: op.get_timestep_embedding(t.astype("float32"), 7, flip_sin_to_cos=flip, scale=scale), x
    )
    angles = scale * x[:, None] * np.exp(-np.log(10000) * np.arange(3) / 2)[None]
    halves = [np.sin(angles), np.cos(angles)]
    expected = np.concatenate([*(halves[::-1] if flip else halves), np.zeros((3, 1))], 1)
    np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-5)


def test_interpolate() -> None:
    x = rand(1, 2, 3, 3)
    tripled = run(lambda t: op.interpolate(t, scale_factor=3.0), x)
    nearest = np.arange(9) // 3  # whole multiples repeat elements, natively and as in PyTorch
    np.testing.assert_allclose(tripled, x[:, :, nearest][..., nearest], rtol=1e-6)
    assert run(lambda t: op.interpolate(t, (5, 6), mode="bilinear", align_corners=True), x).shape == (
        1,
        2,
        5,
        6,
    )
    for kwargs, message in [
        ({}, "one of size and scale_factor"),
        ({"size": 2, "antialias": True}, "antialias"),
        ({"size": 2, "mode": "area"}, "mode is one of"),
    ]:
        with pytest.raises(nn.NNError, match=message):
            export(lambda t, kwargs=kwargs: op.interpolate(t, **kwargs), x)


# -------------------------------------------------------------------------------------------------------------- calls
def test_tensor_expr_op() -> None:
    mod = export(
        lambda x: op.tensor_expr_op(lambda t: te.compute(t.shape, lambda *i: t(*i) + 1), "add_one", [x]), A
    )
    assert op_names(mod, "test") == ["call_tir"]
    assert "add_one" in {var.name_hint for var in mod.functions}


@T.prim_func
def _doubled_in_place(A: T.Buffer((4,), "float32")):  # type: ignore[no-untyped-def]
    for i in range(4):
        with T.block("doubled"):
            vi = T.axis.spatial(4, i)
            A[vi] = A[vi] * T.float32(2)


def test_tensor_ir_op() -> None:
    t = te.placeholder((4,), "float32", "t")
    func = te.create_prim_func([t, te.compute((4,), lambda i: t[i] * 2.0, "doubled")])
    out = nn.Tensor.placeholder((4,), "float32")
    mod = export(lambda x: op.tensor_ir_op(func, "double", x, out), rand(4))
    assert op_names(mod, "test") == ["call_tir"]
    mod = export(lambda x: op.tensor_ir_inplace_op(_doubled_in_place, "double", [x], 0, out), rand(4))
    assert op_names(mod, "test") == ["call_tir_inplace"]
    with pytest.raises(TypeError, match="double: an argument is a Tensor"):
        export(lambda x: op.tensor_ir_op(func, "double", ["x"], out), rand(4))


def test_extern() -> None:
    out = [nn.Tensor.placeholder((4,), "float32"), nn.Tensor.placeholder((1,), "int32")]
    mod = export(lambda x: op.extern("my.function", [x, 1, 2.5, "text"], out), rand(4))
    assert op_names(mod, "test") == ["call_dps_packed"]
    fields = mod["test"].ret_struct_info.fields
    assert [info.dtype for info in fields] == ["float32", "int32"]
    with pytest.raises(TypeError, match=r"my.function: an argument is"):
        export(lambda x: op.extern("my.function", [None], out), rand(4))


def test_collectives() -> None:
    x = rand(2, 4)
    mod = export(lambda t: op.ccl_allreduce(t, "max"), x)
    assert op_names(mod, "test") == ["ccl.allreduce"]
    assert mod["test"].body.blocks[0].bindings[0].value.attrs["op_type"] == "max"
    assert op_names(export(op.ccl_broadcast_from_worker0, x), "test") == ["ccl.broadcast_from_worker0"]
    gathered = export(lambda t: op.ccl_allgather(t, 2), x)
    assert op_names(gathered, "test") == ["ccl.allgather"]


def test_empty_tensors_are_allocated_in_dataflow_blocks() -> None:
    mod = export(lambda x: (op.empty([2, 3], "int8"), x), A)
    assert op_names(mod, "test") == ["builtin.alloc_tensor"]
    info = mod["test"].ret_struct_info.fields[0]
    assert info.dtype == "int8" and [int(dim.value) for dim in info.shape_values] == [2, 3]


def test_astype_of_the_same_dtype_is_nothing() -> None:
    assert op_names(export(lambda x: op.astype(x, "float32") + 1, A), "test") == ["add"]


def test_names_where_the_older_documents_have_them() -> None:
    x, w = rand(1, 3, 6, 6), rand(4, 3, 3, 3)
    mod = export(lambda x, w: op.conv2d(x, w, None, 1, 0, 1, 1, "named"), x, w)
    assert mod["test"].body.blocks[0].bindings[0].var.name_hint == "named"


def test_errors() -> None:
    with pytest.raises(TypeError, match="cannot combine a tensor with a str"):
        export(lambda x: x + "1", A)
    with pytest.raises(nn.NNError, match="pass axis"):
        export(lambda x, i: op.take(x, i), A, np.array([0]))
    with pytest.raises(nn.NNError, match="'tanh'"):
        export(lambda x: op.gelu(x, approximate="erf"), A)


# -------------------------------------------------------------------------------------------------------------- layers
def test_linear_and_embedding() -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            self.table = nn.Embedding(10, 4)
            self.linear = nn.Linear(4, 3)

        def forward(self, x: nn.Tensor) -> nn.Tensor:
            return self.linear(self.table(x))

    mod, _ = Model().export_tvm(spec={"forward": {"x": spec.Tensor((2, 5), "int32")}})
    assert op_names(mod, "forward") == ["reshape", "take", "reshape", "permute_dims", "matmul", "add"]
    ids, table, weight, bias = np.arange(10, dtype=np.int32).reshape(2, 5), rand(10, 4), rand(3, 4), rand(3)
    got = evaluate(mod, ids, table, weight, bias, name="forward")
    np.testing.assert_allclose(got, table[ids] @ weight.T + bias, rtol=1e-5)


LAYERS: list[tuple[nn.Module, tuple[int, ...], tuple[int, ...]]] = [
    (nn.ReLU(), (2, 3), (2, 3)),
    (nn.SiLU(), (2, 3), (2, 3)),
    (nn.GELU(), (2, 3), (2, 3)),
    (nn.Identity(), (2, 3), (2, 3)),
    (nn.Conv1D(2, 3, 3, padding=1), (1, 2, 5), (1, 3, 5)),
    (nn.Conv2D(2, 3, [3, 1], stride=2), (1, 2, 5, 5), (1, 3, 2, 3)),
    (nn.Conv3D(2, 3, 2), (1, 2, 3, 3, 3), (1, 3, 2, 2, 2)),
    (nn.ConvTranspose1D(2, 3, 3, stride=2), (1, 2, 4), (1, 3, 9)),
    (nn.ConvTranspose1D(2, 3, 3, stride=2, output_padding=1), (1, 2, 4), (1, 3, 10)),
    (nn.LayerNorm(3), (2, 3), (2, 3)),
    (nn.LayerNorm(3, elementwise_affine=False), (2, 3), (2, 3)),
    (nn.RMSNorm(3, -1), (2, 3), (2, 3)),
    (nn.GroupNorm(2, 4), (1, 4, 3), (1, 4, 3)),
    (nn.Attention(8, heads=2, dim_head=4), (1, 5, 8), (1, 5, 8)),
    (nn.Attention(8, heads=2, dim_head=4, norm_num_groups=2), (1, 5, 8), (1, 5, 8)),
    (nn.Timesteps(6), (3,), (3, 6)),
    (nn.TimestepEmbedding(6, 8, out_dim=4), (3, 6), (3, 4)),
]


@pytest.mark.parametrize(("layer", "shape", "expected"), LAYERS, ids=lambda item: type(item).__name__)
def test_layers(layer: nn.Module, shape: tuple, expected: tuple) -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            self.layer = layer

        def forward(self, x: nn.Tensor) -> nn.Tensor:
            return self.layer(x)

    mod, params = Model().export_tvm(spec={"forward": {"x": spec.Tensor(shape, "float32")}})
    out = evaluate(mod, rand(*shape), *(rand(*param.shape) for _, param in params), name="forward")
    assert out.shape == expected and np.isfinite(out).all()
