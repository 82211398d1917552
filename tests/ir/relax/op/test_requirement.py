"""Extents that an operator needs to agree and that are symbolic are compared when the program runs; numpy says what fits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import ir
import runners
from ir import relax, tir
from ir.error import IRValueError
from ir.relax import op, transform
from runners.program import ArgumentError

N, M, K, L = (tir.Var(name, "int64") for name in "nmkl")


def numbers(*shape: int) -> np.ndarray:
    return (np.arange(np.prod(shape, dtype=int)).reshape(shape) % 7 - 3).astype("float32")


def zeros(*shape: int) -> np.ndarray:
    return np.zeros(shape, "int64")


def module(shapes: list[tuple[Any, ...]], dtypes: list[str], build: Callable[..., Any]) -> ir.IRModule:
    """A function of one operator; shapes may be symbolic."""
    bb = relax.BlockBuilder()
    params = [
        relax.Var(f"x{i}", relax.TensorStructInfo(shape, dtype))
        for i, (shape, dtype) in enumerate(zip(shapes, dtypes, strict=True))
    ]
    with bb.function("main", params):
        with bb.dataflow():
            out = bb.emit_output(build(*params))
        bb.emit_func_output(out)
    return bb.finalize()


def extents(x: relax.Var) -> Any:
    return x.struct_info.shape_values


def machine(mod: ir.IRModule) -> Any:
    return runners.VirtualMachine(relax.build(mod, "llvm"), runners.cpu())["main"]


def ran(shapes: list[tuple[Any, ...]], build: Callable[..., Any], *arrays: np.ndarray) -> Any:
    found = machine(module(shapes, [array.dtype.name for array in arrays], build))(*arrays)
    return [item.numpy() for item in found] if isinstance(found, list | tuple) else found.numpy()


@dataclass
class Case:
    """An operator on symbolic shapes, arrays that fit it with numpy's result, arrays that do not, and the two numbers that differ."""

    shapes: list[tuple[Any, ...]]
    build: Callable[..., Any]
    fitting: list[np.ndarray]
    expected: Callable[..., Any]
    other: list[np.ndarray]
    message: str


def scatter(x: np.ndarray, i: np.ndarray, u: np.ndarray) -> np.ndarray:
    out = x.copy()
    np.put_along_axis(out, i, u, 0)
    return out


def put(x: np.ndarray, i: np.ndarray, v: np.ndarray) -> np.ndarray:
    out = x.copy()
    out[i] = v
    return out


def layer_norm(x: np.ndarray, g: np.ndarray, b: np.ndarray) -> np.ndarray:
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5) * g + b


def rms_norm(x: np.ndarray, w: np.ndarray) -> np.ndarray:
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-5) * w


def group_norm(x: np.ndarray, g: np.ndarray, b: np.ndarray) -> np.ndarray:
    parts = x.reshape(x.shape[0], 2, -1)
    y = (parts - parts.mean(-1, keepdims=True)) / np.sqrt(parts.var(-1, keepdims=True) + 1e-5)
    return y.reshape(x.shape) * g[:, None] + b[:, None]


def pointwise(x: np.ndarray, w: np.ndarray) -> np.ndarray:
    return np.einsum("nchw,oc->nohw", x, w[:, :, 0, 0])


def attention(q: np.ndarray, k: np.ndarray, v: np.ndarray) -> np.ndarray:
    score = np.einsum("bihd,bjhd->bhij", q, k) / 2
    weight = np.exp(score - score.max(-1, keepdims=True))
    return np.einsum("bhij,bjhe->bihe", weight / weight.sum(-1, keepdims=True), v)


f, z = numbers, zeros

CASES = {
    "matmul": Case(
        [(2, N), (M, 3)], op.matmul, [f(2, 6), f(6, 3)], np.matmul, [f(2, 6), f(2, 3)], r"\(6\).*\(2\)"
    ),
    "matmul of a vector": Case(
        [(2, N), (M,)], op.matmul, [f(2, 6), f(6)], np.matmul, [f(2, 6), f(1)], r"first extent|\(6\).*\(1\)"
    ),
    "einsum": Case(
        [(2, N), (M, 3)],
        lambda x, y: op.einsum((x, y), "ij,jk->ik"),
        [f(2, 6), f(6, 3)],
        np.matmul,
        [f(2, 6), f(2, 3)],
        "label 'j'.* 6 and 2",
    ),
    "stack": Case(
        [(N,), (M,)],
        lambda x, y: op.stack([x, y]),
        [f(6), f(6)],
        lambda x, y: np.stack([x, y]),
        [f(6), f(2)],
        "6 and 2",
    ),
    "ewise_fma": Case(
        [(N,), (M,), (K,)],
        op.ewise_fma,
        [f(4), f(4), f(4)],
        lambda x, y, w: x * y + w,
        [f(4), f(4), f(2)],
        "4 and 2",
    ),
    "layer_norm": Case(
        [(2, N), (M,), (M,)],
        lambda x, g, b: op.nn.layer_norm(x, g, b, axes=[-1]),
        [f(2, 6), f(6), f(6)],
        layer_norm,
        [f(2, 6), f(1), f(1)],
        "extent 1 where axis 1 of the data has 6",
    ),
    "rms_norm": Case(
        [(2, N), (M,)],
        op.nn.rms_norm,
        [f(2, 6), f(6)],
        rms_norm,
        [f(2, 6), f(5)],
        "extent 5 where axis 1.* 6",
    ),
    "group_norm": Case(
        [(2, N, 3), (N,), (N,)],
        lambda x, g, b: op.nn.group_norm(x, g, b, 2, 1, [2]),
        [f(2, 4, 3), f(4), f(4)],
        group_norm,
        [f(2, 5, 3), f(5), f(5)],
        "5 channels are not divisible into 2 groups",
    ),
    "conv2d": Case(
        [(1, N, 3, 3), (2, M, 1, 1)],
        op.nn.conv2d,
        [f(1, 3, 3, 3), f(2, 3, 1, 1)],
        pointwise,
        [f(1, 3, 3, 3), f(2, 2, 1, 1)],
        "3 channels.* 2",
    ),
    "conv2d's window": Case(
        [(1, 2, N, 1), (3, 2, 2, 1)],
        op.nn.conv2d,
        [f(1, 2, 2, 1), f(3, 2, 2, 1)],
        lambda x, w: np.einsum("nchw,ochw->no", x, w)[..., None, None],
        [f(1, 2, 1, 1), f(3, 2, 2, 1)],
        "window of 2 exceeds the padded extent 1 of spatial axis 0",
    ),
    "max_pool2d's window": Case(
        [(1, 2, N, 1)],
        lambda x: op.nn.max_pool2d(x, (2, 1)),
        [f(1, 2, 2, 1)],
        lambda x: x.max(2, keepdims=True),
        [f(1, 2, 1, 1)],
        "window of 2 exceeds .* axis 0.* 1 .* 0 fit",
    ),
    "conv2d_transpose": Case(
        [(1, N, 3, 3), (M, 2, 1, 1)],
        op.nn.conv2d_transpose,
        [f(1, 3, 3, 3), f(3, 2, 1, 1)],
        lambda x, w: pointwise(x, w.transpose(1, 0, 2, 3)),
        [f(1, 3, 3, 3), f(2, 2, 1, 1)],
        "3 channels, the weight takes 2",
    ),
    "pixel_shuffle": Case(
        [(1, N, 2, 2)],
        lambda x: op.nn.pixel_shuffle(x, 1),
        [f(1, 3, 2, 2)],
        lambda x: x,
        [],
        "",
    ),
    "pixel_shuffle by 2": Case(
        [(1, N, 1, 1)],
        lambda x: op.nn.pixel_shuffle(x, 2),
        [f(1, 4, 1, 1)],
        lambda x: x.reshape(1, 1, 2, 2),
        [f(1, 5, 1, 1)],
        "5 channels",
    ),
    "pad that cuts": Case(
        [(N,)], lambda x: op.nn.pad(x, [-2, -2]), [f(5)], lambda x: x[2:3], [f(3)], "cuts 4 of the 3 elements"
    ),
    "pad that reflects": Case(
        [(N,)],
        lambda x: op.nn.pad(x, [1, 3], "reflect"),
        [f(4)],
        lambda x: np.pad(x, (1, 3), "reflect"),
        [f(3)],
        "needs 4 elements, axis 0 has 3",
    ),
    "pad that repeats": Case(
        [(N,)],
        lambda x: op.nn.pad(x, [2, 0], "circular"),
        [f(1)],
        lambda x: np.pad(x, (2, 0), "wrap"),
        [f(0)],
        "needs 1 elements, axis 0 has 0",
    ),
    "prelu": Case(
        [(1, N), (M,)],
        op.nn.prelu,
        [-f(1, 6), f(6)],
        lambda x, a: np.where(x > 0, x, x * a),
        [-f(1, 6), f(2)],
        "2 slopes for 6 channels",
    ),
    "prelu with one slope": Case(
        [(1, N), (M,)], op.nn.prelu, [-f(1, 6), f(1)], lambda x, a: np.where(x > 0, x, x * a), [], ""
    ),
    "attention": Case(
        [(1, 2, 1, 4), (1, N, 1, 4), (1, M, 1, 4)],
        op.nn.attention,
        [f(1, 2, 1, 4), f(1, 3, 1, 4), f(1, 3, 1, 4)],
        attention,
        [f(1, 2, 1, 4), f(1, 3, 1, 4), f(1, 2, 1, 4)],
        "sequence length of key and value differ: 3 and 2",
    ),
    "attention with bias": Case(
        [(1, 2, 1, 4), (1, N, 1, 4), (1, N, 1, 4), (1, 1, 2, M)],
        op.nn.attention,
        [f(1, 2, 1, 4), f(1, 3, 1, 4), f(1, 3, 1, 4), np.zeros((1, 1, 2, 3), "float32")],
        lambda q, k, v, b: attention(q, k, v),
        [f(1, 2, 1, 4), f(1, 3, 1, 4), f(1, 3, 1, 4), f(1, 1, 2, 2)],
        "extent 2 at axis 3, expected 1 or 3",
    ),
    "cross_entropy": Case(
        [(N, 3), (M, 3)],
        op.nn.cross_entropy_with_logits,
        [f(2, 3), f(2, 3)],
        lambda x, y: -(x * y).sum() / 2,
        [f(2, 3), f(1, 3)],
        "extents 2 and 1 along axis 0",
    ),
    "nll_loss": Case(
        [(N, 3), (M,)],
        lambda x, t: op.nn.nll_loss(x, t, reduction="none"),
        [f(2, 3), z(2)],
        lambda x, t: -x[:, 0],
        [f(2, 3), z(5)],
        "extent 5 along axis 0, the predictions' is 2",
    ),
    "nll_loss with weights": Case(
        [(2, N), (2,), (M,)],
        lambda x, t, w: op.nn.nll_loss(x, t, w, reduction="none"),
        [f(2, 3), z(2), f(3)],
        lambda x, t, w: -x[:, 0] * w[0],
        [f(2, 3), z(2), f(1)],
        "1 weights for 3 classes",
    ),
    "quantize": Case(
        [(N, 2), (M,), (M,)],
        lambda x, s, p: op.quantize(x, s, p, axis=0, out_dtype="int8"),
        [f(3, 2), np.ones(3, "float32"), np.zeros(3, "int8")],
        lambda x, s, p: x.astype("int8"),
        [f(3, 2), np.ones(2, "float32"), np.zeros(2, "int8")],
        "2 entries, axis 0 of the data has extent 3",
    ),
    "gather_elements": Case(
        [(2, N), (K, M)],
        op.gather_elements,
        [f(2, 4), z(3, 2)],
        lambda x, i: np.take_along_axis(x[:, :2], i, 0),
        [f(2, 4), z(3, 5)],
        "extent 5 along axis 1, where the data has 4",
    ),
    "gather_nd": Case(
        [(N, 4), (M, 1)],
        lambda x, i: op.gather_nd(x, i, batch_dims=1),
        [f(3, 4), z(3, 1)],
        lambda x, i: x[:, 0],
        [f(3, 4), z(5, 1)],
        "5 and 3 along batch dimension 0",
    ),
    "scatter_elements": Case(
        [(N,), (M,), (K,)],
        op.scatter_elements,
        [f(3), np.arange(2), f(2)],
        scatter,
        [f(3), z(30), f(2)],
        "extent 30 along axis 0, where the updates have 2",
    ),
    "scatter_elements beside the data": Case(
        [(3, N), (3, M), (3, M)],
        op.scatter_elements,
        [f(3, 2), np.arange(6).reshape(2, 3).T % 3, f(3, 2)],
        scatter,
        [f(3, 2), z(3, 4), f(3, 4)],
        "extent 4 along axis 1, where the data has 2",
    ),
    "scatter_nd": Case(
        [(N, 2), (M, 1), (K, 2)],
        op.scatter_nd,
        [f(4, 2), np.array([[1], [3]]), f(2, 2)],
        lambda x, i, u: put(x, i[:, 0], u),
        [f(4, 2), z(5, 1), f(2, 2)],
        "extent 2 along axis 0, not 5",
    ),
    "index_put": Case(
        [(N,), (M,), (K,)],
        lambda x, i, v: op.index_put(x, [i], v),
        [f(4), np.array([1, 3]), f(2)],
        put,
        [f(4), np.array([1, 3, 0]), f(2)],
        "extent 2 at dimension 0 must be 1 or 3",
    ),
    "index_put of one value": Case(
        [(N,), (M,), (K,)],
        lambda x, i, v: op.index_put(x, [i], v),
        [f(4), np.array([1, 3]), f(1)],
        put,
        [],
        "",
    ),
    "slice_scatter": Case(
        [(N, 2), (M, 2)],
        lambda x, s: op.slice_scatter(x, s, 0, 2, 1, 0),
        [f(4, 2), -f(2, 2)],
        lambda x, s: np.concatenate([s, x[2:]]),
        [f(4, 2), -f(3, 2)],
        "extent 3 along axis 0, the slice 2",
    ),
    "multinomial": Case(
        [(1, 2), (N, 1), (M, 1)],
        op.multinomial_from_uniform,
        [np.array([[0.5, 0.5]], "float32"), np.array([[0.1], [0.9]], "float32"), z(2, 1)],
        lambda p, u, i: np.array([[0], [1]]),
        [np.array([[0.5, 0.5]], "float32"), np.array([[0.1], [0.9]], "float32"), z(1, 1)],
        "uniform_sample has 2 rows, sample_indices 1",
    ),
    "topk": Case(
        [(2, N)],
        lambda x: op.topk(x, 4, ret_type="values"),
        [f(2, 5)],
        lambda x: -np.sort(-x, -1)[:, :4],
        [f(2, 3)],
        "k=4 exceeds the extent 3 of axis 1",
    ),
    "squeeze": Case(
        [(2, N)],
        lambda x: op.squeeze(x, [1]),
        [f(2, 1)],
        lambda x: x[:, 0],
        [f(2, 3)],
        "axis 1 has extent 3, only axes of extent 1",
    ),
    "broadcast_to": Case(
        [(N,), (M,)],
        lambda x, y: op.broadcast_to(x, extents(y)),
        [f(3), f(3)],
        lambda x, y: x,
        [f(3), f(8)],
        "extent 3 at dimension 0 must be 1 or 8",
    ),
    "broadcast_to of one element": Case(
        [(N,), (M,)],
        lambda x, y: op.broadcast_to(x, extents(y)),
        [f(1), f(8)],
        lambda x, y: np.broadcast_to(x, 8),
        [],
        "",
    ),
    "collapse_sum_to": Case(
        [(2, N), (M,)],
        lambda x, y: op.collapse_sum_to(x, extents(y)),
        [f(2, 3), f(3)],
        lambda x, y: x.sum(0),
        [f(2, 3), f(8)],
        "dimension 1 has extent 3, not 8",
    ),
    "reshape": Case(
        [(N,), (M,)],
        lambda x, y: op.reshape(x, [extents(y)[0] * 2]),
        [f(6), f(3)],
        lambda x, y: x,
        [f(6), f(6)],
        "6 elements .* with 12",
    ),
    "reshape to what is left": Case(
        [(N,)],
        lambda x: op.reshape(x, (-1, 4)),
        [f(8)],
        lambda x: x.reshape(2, 4),
        [f(6)],
        "6 elements .* with 4",
    ),
    "dynamic_strided_slice": Case(
        [(4,), (N,), (1,), (1,)],
        op.dynamic_strided_slice,
        [f(4), z(1), np.array([3]), np.array([1])],
        lambda x, b, e, s: x[:3],
        [f(4), z(2), np.array([3]), np.array([1])],
        "begin has 2 entries for 1 dimensions",
    ),
    "concat": Case(
        [(N, 2), (N, M)],
        lambda x, y: op.concat((x, y), 0),
        [f(3, 2), f(3, 2)],
        lambda x, y: np.concatenate((x, y)),
        [f(3, 2), f(3, 3)],
        "dimension 1: 3 and 2",
    ),
    "concat of three": Case(
        [(2, N), (2, M), (2, K)],
        lambda x, y, z: op.concat((x, y, z), 0),
        [f(2, 3), f(2, 3), f(2, 3)],
        lambda x, y, z: np.concatenate((x, y, z)),
        [f(2, 3), f(2, 3), f(2, 4)],
        "dimension 1: 4 and 3",
    ),
    "argmax": Case(
        [(N,)], lambda x: op.argmax(x, 0), [f(5)], np.argmax, [f(0)], "1 element along axis 0 .* there are 0"
    ),
    "argmin of all": Case(
        [(2, N)], op.argmin, [f(2, 5)], np.argmin, [f(2, 0)], "1 element along axis 1 .* there are 0"
    ),
}


@pytest.mark.meaning("relax-agree")
@pytest.mark.parametrize("name", CASES)
def test_extents_that_must_agree_are_compared_when_the_program_runs(name: str) -> None:
    """What fits computes what numpy does; else an error names the operator, the axes and both numbers."""
    case = CASES[name]
    dtypes = [array.dtype.name for array in case.fitting]
    main = machine(module(case.shapes, dtypes, case.build))
    np.testing.assert_allclose(
        main(*case.fitting).numpy(), case.expected(*case.fitting), rtol=1e-4, atol=1e-5
    )
    if case.other:
        with pytest.raises(ArgumentError, match=rf"^main: relax\.[\w.]+: .*{case.message}"):
            main(*case.other)


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.other])
def test_extents_that_surely_differ_are_refused_at_once(name: str) -> None:
    """The same numbers, known while the program is built, make no program."""
    case = CASES[name]
    with pytest.raises(IRValueError):
        module([array.shape for array in case.other], [array.dtype.name for array in case.other], case.build)


def test_what_is_proved_costs_nothing() -> None:
    """Extents that are equal by construction, or numbers, are not compared."""
    mod = module([(N, 4), (4, N)], ["float32"] * 2, lambda x, y: op.expand_dims(op.matmul(x, y), 0))
    assert "match_cast" not in transform.LegalizeOps()(mod).script()


def test_a_comparison_outlives_what_passes_remove() -> None:
    """A comparison in a dataflow block is no dead code, though nothing uses what it binds."""
    mod = module([(2, N), (M, 3)], ["float32"] * 2, op.matmul)
    legal = transform.LegalizeOps()(mod)
    after = transform.DeadCodeElimination()(transform.CanonicalizeBindings()(legal))
    assert after.script().count("match_cast") == legal.script().count("match_cast") == 1


@pytest.mark.meaning("relax-agree")
def test_which_extent_a_broadcast_takes_must_be_known() -> None:
    """Of n and m either may be 1: the result has no extent, and there is no kernel."""
    with pytest.raises(ir.error.IRError, match=r"relax\.add"):
        machine(module([(N,), (M,)], ["float32"] * 2, op.add))


@pytest.mark.meaning("argmax", "reduce-empty")
def test_an_extremum_is_searched_along_axes_that_are_searched() -> None:
    """Axes that stay may be empty: then there is nothing to find."""
    found = ran([(N, 3)], lambda x: op.argmax(x, 1), numbers(0, 3))
    assert found.shape == (0,)
