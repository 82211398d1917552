"""Gradients of operators against finite differences, in float64."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ir
import runners
from ir import relax as rx
from ir.relax.op import OPERATORS
from ir.relax.testing import evaluate
from ir.relax.transform import Gradient

from .cases import CASES as OPERATOR_CASES
from .cases import Case

R, N = rx.op, rx.op.nn


def values(*shape: int, low: float = -2.0, high: float = 2.0, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed + sum(shape)).uniform(low, high, shape)


COND = rx.const(np.asarray([[True, False, True], [False, True, True]]))
INDEX = rx.const(np.asarray([0, 2, 2]), "int64")
TARGETS = rx.const(np.asarray([0, 2, 1]), "int64")
A = values(2, 3)
CASES: list[tuple[str, Callable[..., Any], list[np.ndarray]]] = [
    ("add", R.add, [A, values(3)]),
    ("subtract", R.subtract, [A, values(2, 1)]),
    ("multiply", R.multiply, [A, values(3)]),
    ("divide", R.divide, [A, values(3, low=0.5)]),
    ("power", R.power, [values(2, 3, low=0.5), values(3)]),
    ("maximum", R.maximum, [A, values(2, 3, seed=9)]),
    ("minimum", R.minimum, [A, values(2, 3, seed=9)]),
    ("log_add_exp", R.log_add_exp, [A, values(2, 3, seed=9)]),
    *[
        (name, getattr(R, name), [A])
        for name in "abs cos exp negative sigmoid sin tanh square tan erf".split()
    ],
    *[(name, getattr(R, name), [values(2, 3, low=0.5)]) for name in "log sqrt rsqrt".split()],
    *[
        (f"nn.{name}", getattr(N, name), [A])
        for name in "relu silu gelu gelu_tanh softmax log_softmax".split()
    ],
    ("sum", lambda x: R.sum(x, 1), [A]),
    ("sum", R.sum, [A]),
    ("mean", lambda x: R.mean(x, [0, 1], True), [A]),
    ("variance", lambda x: R.variance(x, 1), [A]),
    ("max", lambda x: R.max(x, 1), [A]),
    ("min", lambda x: R.min(x, 0, True), [A]),
    ("cumsum", lambda x: R.cumsum(x, 1), [A]),
    ("cumsum", lambda x: R.cumsum(x, exclusive=True), [A]),
    ("matmul", R.matmul, [values(2, 3), values(3, 4)]),
    ("matmul", R.matmul, [values(5, 2, 3), values(3, 4)]),
    ("matmul", R.matmul, [values(3), values(3, 4)]),
    ("matmul", R.matmul, [values(2, 3), values(3)]),
    ("matmul", R.matmul, [values(3), values(3, seed=4)]),
    ("permute_dims", lambda x: R.permute_dims(x, [2, 0, 1]), [values(2, 3, 4)]),
    ("permute_dims", R.permute_dims, [A]),
    ("reshape", lambda x: R.reshape(x, (3, 2)), [A]),
    ("expand_dims", lambda x: R.expand_dims(x, 1), [A]),
    ("squeeze", lambda x: R.squeeze(x, 1), [values(2, 1, 3)]),
    ("flatten", R.flatten, [A]),
    ("broadcast_to", lambda x: R.broadcast_to(x, (4, 2, 3)), [values(2, 1)]),
    ("collapse_sum_to", lambda x: R.collapse_sum_to(x, (1, 3)), [A]),
    ("flip", lambda x: R.flip(x, 1), [A]),
    ("concat", lambda x, y: R.concat([x, y], 1), [A, values(2, 2)]),
    ("split", lambda x: rx.TupleGetItem(R.split(x, 3, 1), 1), [A]),
    ("take", lambda x: R.take(x, INDEX, 1), [A]),
    ("where", lambda x, y: R.where(COND, x, y), [A, values(3)]),
    ("nn.pad", lambda x: N.pad(x, [1, 0, 2, 1]), [A]),
    ("nn.conv2d", lambda x, w: N.conv2d(x, w, 2, 1), [values(2, 2, 6, 5), values(3, 2, 3, 3)]),
    ("nn.conv2d", lambda x, w: N.conv2d(x, w, dilation=2), [values(1, 2, 6, 6), values(2, 2, 3, 2)]),
    ("nn.max_pool2d", lambda x: N.max_pool2d(x, 2, 2, 1), [values(1, 2, 5, 4)]),
    ("nn.avg_pool2d", lambda x: N.avg_pool2d(x, 3, 2, 1), [values(1, 2, 5, 4)]),
    ("nn.cross_entropy_with_logits", N.cross_entropy_with_logits, [A, values(2, 3, seed=7)]),
    ("nn.nll_loss", lambda x: N.nll_loss(x, TARGETS), [values(3, 4)]),
    ("astype", lambda x: R.astype(x, "float64"), [A]),
    ("grad.start_checkpoint", R.grad.start_checkpoint, [A]),
]


def scalar_function(build: Callable[..., Any], params: list[rx.Var], seed: np.ndarray | None) -> rx.Function:
    bb = rx.BlockBuilder()
    with bb.function("main", params):
        bb.emit_func_output(bb.emit(build(*params)))
    return bb.finalize()["main"]


def adjoint(
    build: Callable[..., Any], params: list[rx.Var], weight: np.ndarray
) -> tuple[rx.Function, list[int]]:
    """The gradients of sum(weight * result) by the operator's own gradient, with the numbers of the parameters they are by."""
    bb = rx.BlockBuilder()
    with bb.function("main", params):
        result = build(*params)
        call = result.tuple_value if isinstance(result, rx.TupleGetItem) else result
        var = bb.emit(call)
        grad: Any = rx.const(weight, "float64")
        if isinstance(result, rx.TupleGetItem):
            parts = [bb.emit(R.zeros(info.shape, info.dtype)) for info in var.struct_info.fields]
            parts[result.index] = grad
            grad = rx.Tuple(parts)
        node = bb.lookup_binding(var)
        grads = node.op.get_attr("FPrimalGradient")(var, node, grad, bb)
        assert len(grads) == len(node.args)
        found: dict[rx.Var, Any] = {}
        for arg, one in zip(node.args, grads, strict=True):
            if one is None:
                continue
            one = bb.emit(one)
            if isinstance(arg, rx.Tuple):
                for index, item in enumerate(arg.fields):
                    found[item] = bb.emit(one[index])
            else:
                found[arg] = one
        bb.emit_func_output(rx.Tuple([found[param] for param in params if param in found]))
    mod = bb.finalize()
    rx.analysis.check_well_formed(mod)
    return mod["main"], [number for number, param in enumerate(params) if param in found]


@pytest.mark.parametrize(
    ("name", "build", "inputs"), CASES, ids=[f"{i}-{case[0]}" for i, case in enumerate(CASES)]
)
def test_gradient(name: str, build: Callable[..., Any], inputs: list[np.ndarray]) -> None:
    assert R.OPERATORS[f"relax.{name}"].gradient is ir.Op.get(f"relax.{name}").get_attr("FPrimalGradient")
    params = [rx.Var(f"x{i}", rx.TensorStructInfo(x.shape, "float64")) for i, x in enumerate(inputs)]
    func = scalar_function(build, params, None)
    result = np.asarray(evaluate(func, *inputs))
    weight = np.random.default_rng(1).uniform(0.5, 1.5, result.shape)
    backward, numbers = adjoint(build, params, weight)
    assert numbers == list(range(len(params)))
    grads = evaluate(backward, *inputs)
    step = 1e-6
    for number, (x, grad) in enumerate(zip(inputs, grads, strict=True)):
        expected = np.zeros_like(x)
        for place in np.ndindex(*x.shape):
            ends = []
            for sign in (1, -1):
                moved = x.copy()
                moved[place] += sign * step
                args = [moved if i == number else other for i, other in enumerate(inputs)]
                ends.append(float((np.asarray(evaluate(func, *args)) * weight).sum()))
            expected[place] = (ends[0] - ends[1]) / (2 * step)
        np.testing.assert_allclose(grad, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("operator", [R.max, R.min])
@pytest.mark.parametrize("axis", [None, 1, (0, 2)])
@pytest.mark.parametrize("keepdims", [False, True])
def test_equal_extrema_share_the_gradient(operator: Any, axis: Any, keepdims: bool) -> None:
    """As much flows to the elements as came to the result, whether one of them is the extremum or several."""
    x = np.array([[[3.0, 1, 3], [0, 0, 0]], [[3, 1, 1], [0, 2, 0]]])
    params = [rx.Var("x", rx.TensorStructInfo(x.shape, "float64"))]
    pick = (np.max if operator is R.max else np.min)(x, axis, keepdims=True)
    came = np.random.default_rng(0).uniform(1, 2, pick.shape)
    weight = came if keepdims else came.reshape(np.max(x, axis).shape)
    backward, _ = adjoint(lambda v: operator(v, axis, keepdims), params, weight)
    (found,) = evaluate(backward, x)
    hit = x == pick
    np.testing.assert_allclose(found, hit * came / hit.sum(axis, keepdims=True))


def test_nothing_flows_through_comparisons_and_stops() -> None:
    x = rx.Var("x", rx.TensorStructInfo((2,)))
    bb = rx.BlockBuilder()
    with bb.testing_scope([]):
        call = bb.normalize(R.less(x, x))
        assert call.op.get_attr("FPrimalGradient")(x, call, x, bb) == [None, None]
        stopped = bb.normalize(R.grad.no_grad(x))
        (zero,) = stopped.op.get_attr("FPrimalGradient")(x, stopped, x, bb)
    assert zero.op.name == "relax.zeros_like"


def native_gradients(build: Callable[..., Any], *inputs: np.ndarray) -> list[np.ndarray]:
    """The gradients of the sum of a result by its float inputs, compiled; they agree with the evaluator's."""
    params = [
        rx.Var(f"x{i}", rx.TensorStructInfo(x.shape, ir.dtype.from_numpy(x.dtype)))
        for i, x in enumerate(inputs)
    ]
    bb = rx.BlockBuilder()
    with bb.function("main", params):
        with bb.dataflow():
            out = bb.emit_output(R.sum(bb.emit(R.astype(bb.emit(build(*params)), "float32"))))
        bb.emit_func_output(out)
    moving = [param for param in params if ir.dtype.is_float(param.struct_info.dtype)]
    mod = Gradient("main", require_grads=moving)(bb.finalize())
    found = runners.VirtualMachine(rx.build(mod, "llvm"))["main_adjoint"](*inputs)[1]
    wanted = evaluate(mod, *inputs, name="main_adjoint")[1]
    for item, expected in zip(found, wanted, strict=True):
        np.testing.assert_allclose(item.numpy(), expected, rtol=1e-3)
    return [item.numpy() for item in found]


@pytest.mark.parametrize(
    ("mode", "rows", "indices", "read"),
    [
        ("fast", 4, np.array([1, -1]), [1, 3]),
        ("wrap", 4, np.array([[1, -1], [9, 9]]), [1, 3, 1, 1]),
        ("clip", 4, np.array([1, 9, -2]), [1, 3, 0]),
        ("nan", 4, np.array([1, 9, -1, 2]), [1, 2]),
        ("fast", 300, np.array([0, 5], "uint8"), [0, 5]),
        ("wrap", 300, np.array([200, 3], "uint8"), [200, 3]),
        ("clip", 300, np.array([100, -3], "int8"), [100, 0]),
    ],
)
def test_gradient_of_take_flows_to_the_rows_that_were_read(
    mode: str, rows: int, indices: np.ndarray, read: list[int]
) -> None:
    """In every mode, from either end, and where the indices' dtype has not so many numbers as there are rows."""
    x = np.ones((2, rows), "float32")
    (found,) = native_gradients(lambda x, i: R.take(x, i, 1, mode), x, indices)
    expected = np.zeros_like(x)
    np.add.at(expected, (slice(None), read), 1)
    np.testing.assert_array_equal(found, expected)


def test_gradient_of_nll_loss_knows_more_classes_than_its_targets_have_numbers() -> None:
    targets = np.array([0, 5], "uint8")
    (found,) = native_gradients(
        lambda x, t: N.nll_loss(x, t, reduction="sum"), np.ones((2, 300), "float32"), targets
    )
    np.testing.assert_array_equal(np.argwhere(found), [[0, 0], [1, 5]])


def test_gradient_of_power_at_zero() -> None:
    """As torch's: no slope where the value is constant."""
    torch = pytest.importorskip("torch")
    x = np.array([0, 0, 2, 0, 3, -2], "float32")
    y = np.array([2, 1, 3, 0, 0, 3], "float32")
    theirs = [torch.tensor(item, requires_grad=True) for item in (x, y)]
    (theirs[0] ** theirs[1]).sum().backward()
    for item, expected in zip(native_gradients(R.power, x, y), theirs, strict=True):
        np.testing.assert_allclose(item, expected.grad.numpy(), rtol=1e-5)


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize("options", [{}, {"dilation": (2, 3)}, {"dilation": 2, "ceil_mode": True}], ids=str)
def test_gradient_of_max_pool2d_with_dilation(layout: str, options: dict[str, Any]) -> None:
    torch = pytest.importorskip("torch")
    x = np.random.default_rng(0).permutation(2 * 3 * 9 * 10).reshape(2, 3, 9, 10).astype("float32")
    theirs = torch.tensor(x, requires_grad=True)
    torch.nn.functional.max_pool2d(theirs, 3, 2, 1, **options).sum().backward()
    given = x if layout == "NCHW" else np.ascontiguousarray(x.transpose(0, 2, 3, 1))
    (found,) = native_gradients(lambda x: N.max_pool2d(x, 3, 2, 1, layout=layout, **options), given)
    expected = theirs.grad.numpy()
    np.testing.assert_array_equal(found, expected if layout == "NCHW" else expected.transpose(0, 2, 3, 1))


@pytest.mark.parametrize("include", [False, True])
@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize("dilation", [1, 2, (1, 3)])
def test_gradient_of_avg_pool2d_with_dilation(dilation: Any, layout: str, include: bool) -> None:
    """Against the slope of the pooling itself, which is linear."""
    rng = np.random.default_rng(0)
    x, step = rng.standard_normal((2, 2, 7, 8))
    if layout == "NHWC":
        x, step = x.transpose(1, 2, 0), step.transpose(1, 2, 0)
    x, step = x[None].astype("float32"), step[None].astype("float32")

    def pooled(x: Any) -> Any:
        return N.avg_pool2d(x, 3, 2, 1, dilation, count_include_pad=include, layout=layout)

    param = rx.Var("x", rx.TensorStructInfo(x.shape))
    func = scalar_function(lambda x: R.sum(pooled(x)), [param], None)
    slope = np.asarray(evaluate(func, x + step)) - np.asarray(evaluate(func, x))
    (found,) = native_gradients(pooled, x)
    np.testing.assert_allclose((found * step).sum(), slope, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize(
    "build, shapes",
    [
        (lambda x, y: R.matmul(x, y, out_dtype="float32"), [(2, 3), (3, 4)]),
        (lambda x, y: N.conv2d(x, y, out_dtype="float32"), [(1, 2, 4, 4), (3, 2, 3, 3)]),
        (lambda x: R.cumsum(x, 0, "float32"), [(3,)]),
    ],
    ids=["matmul", "conv2d", "cumsum"],
)
def test_gradients_of_narrow_operands_of_a_wider_result_have_their_dtype(build: Any, shapes: Any) -> None:
    inputs = [np.ones(shape, "float16") for shape in shapes]
    wide = native_gradients(build, *[item.astype("float32") for item in inputs])
    for item, expected in zip(native_gradients(build, *inputs), wide, strict=True):
        assert item.dtype == np.float16
        np.testing.assert_array_equal(item, expected.astype("float16"))


STOPS = {"relax.grad.no_grad"}
"""Operators whose gradient is zero although their value moves."""
HELD = {"relax.nn.nll_loss": {2}}
"""Float arguments that an operator does not differentiate by: weights of classes."""
TABLE = [item for item in OPERATOR_CASES if OPERATORS[item.op].gradient is not None and item.op not in STOPS]


@pytest.mark.parametrize("item", TABLE, ids=str)
def test_gradient_of_the_table(item: Case) -> None:
    """Every operator with a gradient, on the inputs of the table of operators: the slope along a random direction."""
    rng = np.random.default_rng(3)
    inputs = [x.astype("float64") if x.dtype.kind == "f" else x for x in item.inputs]
    held = HELD.get(item.op, set())
    moving = [number for number, x in enumerate(inputs) if x.dtype.kind == "f" and number not in held]
    params = [
        rx.Var(f"x{i}", rx.TensorStructInfo(x.shape, ir.dtype.from_numpy(x.dtype)))
        for i, x in enumerate(inputs)
    ]

    def built(*args: rx.Var) -> Any:
        result = item.build(*args)
        info = rx.BlockBuilder().normalize(result).struct_info
        return result if isinstance(info, rx.TensorStructInfo) else rx.TupleGetItem(result, 0)

    func = scalar_function(built, params, None)
    value = np.asarray(evaluate(func, *inputs))
    if value.dtype.kind != "f":
        return  # nothing flows through what is no number
    weight = rng.uniform(0.5, 1.5, value.shape)
    try:
        backward, numbers = adjoint(built, params, weight)
    except ir.IRValueError as error:
        assert "the gradient" in str(error), "an operator may refuse a form, and says so"
        return
    directions = [rng.standard_normal(x.shape) if n in moving else x * 0 for n, x in enumerate(inputs)]
    step = 1e-6
    ends = []
    for sign in (1, -1):
        moved = [
            x + sign * step * d if n in moving else x for n, (x, d) in enumerate(zip(inputs, directions))
        ]
        ends.append(float((np.asarray(evaluate(func, *moved)) * weight).sum()))
    slope = (ends[0] - ends[1]) / (2 * step)
    grads = evaluate(backward, *inputs) if numbers else []
    found = sum(float((np.asarray(g) * directions[n]).sum()) for n, g in zip(numbers, grads, strict=True))
    np.testing.assert_allclose(found, slope, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("name", ["max", "min"])
@pytest.mark.parametrize(("axis", "keepdims"), [(1, False), (0, True), (None, False), ([0, 1], True)])
def test_equal_extrema_share_the_gradient(name: str, axis: Any, keepdims: bool) -> None:
    """As of torch.amax: elements that are the extremum together do not each get all of it."""
    torch = pytest.importorskip("torch")
    x = np.array([[2.0, -1.0, 2.0], [2.0, -1.0, -1.0]])
    theirs = torch.from_numpy(x).requires_grad_()
    axes = () if axis is None else axis
    result = getattr(torch, f"a{name}")(theirs, dim=axes, keepdim=keepdims)
    weight = np.arange(1.0, 1.0 + result.numel()).reshape(result.shape)
    (result * torch.from_numpy(weight)).sum().backward()
    params = [rx.Var("x", rx.TensorStructInfo(x.shape, "float64"))]
    func, _ = adjoint(lambda item: getattr(R, name)(item, axis, keepdims), params, weight)
    np.testing.assert_allclose(evaluate(func, x)[0], theirs.grad.numpy())
