"""Every operator against numpy: inferred shapes (static and symbolic), and numbers after legalization."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ir
from ir import relax as rx
from ir.relax.op import OPERATORS
from ir.relax.op.declaration import make
from ir.relax.testing import evaluate
from ir.script import from_source

from .calls import DATA_DEPENDENT, build, check_info, flat, params_of, reference
from .cases import CASES, Case

R = rx.op

WITHOUT_NUMBERS = {
    # calls of functions, effects, memory of the virtual machine, several workers: tested where they are lowered
    name
    for name in OPERATORS
    if name.startswith(
        (
            "relax.call_",
            "relax.invoke_",
            "relax.make_",
            "relax.memory.",
            "relax.vm.",
            "relax.ccl.",
            "relax.dist.",
            "relax.inspect.",
        )
    )
} | {
    "relax.print",
    "relax.assert_op",
    "relax.null_value",
    "relax.shape_of",
    "relax.shape_to_tensor",
    "relax.tensor_to_shape",
    "relax.builtin.alloc_tensor",
    "relax.nn.attention_var_len",
}


def test_every_operator_has_a_case() -> None:
    tested = {item.op for item in CASES}
    assert set(OPERATORS) - tested - WITHOUT_NUMBERS == set()


BUILT_BY_OTHERS = {
    # attention decides by its arguments which operator it calls; builtins take their arguments in another form
    "relax.nn.attention_bias",
    "relax.call_builtin_with_ctx",
}


@pytest.mark.parametrize("name", sorted(set(OPERATORS) - BUILT_BY_OTHERS))
def test_every_operator_is_found_under_its_name(name: str) -> None:
    found: Any = R
    for part in name.split(".")[1:]:
        found = getattr(found, part)
    assert found is OPERATORS[name].build


@pytest.mark.meaning("op-reference")
@pytest.mark.parametrize("item", CASES, ids=str)
def test_static(item: Case) -> None:
    params, _ = params_of(item, False)
    expected = reference(item, params)
    func = build(item, params, False)["main"]
    check_info(func.ret_struct_info, expected, {}, item.op not in DATA_DEPENDENT)
    dtypes = [np.asarray(part).dtype for part in flat(expected)]
    infos = (
        func.ret_struct_info.fields
        if isinstance(func.ret_struct_info, rx.TupleStructInfo)
        else [func.ret_struct_info]
    )
    if item.numbers:
        got = flat(evaluate(build(item, params, True), *item.inputs))
        for one, want, info in zip(got, flat(expected), infos, strict=True):
            assert one.shape == want.shape
            assert ir.dtype.from_numpy(one.dtype) == info.dtype
            np.testing.assert_allclose(one, want, rtol=item.tolerance, atol=item.tolerance)
    assert [info.dtype for info in infos] == [ir.dtype.from_numpy(kind) for kind in dtypes]


@pytest.mark.parametrize("item", [item for item in CASES if item.symbolic], ids=str)
def test_symbolic(item: Case) -> None:
    params, values = params_of(item, True)
    expected = reference(item, params)
    func = build(item, params, False)["main"]
    check_info(func.ret_struct_info, expected, values, item.op not in DATA_DEPENDENT)
    if item.numbers:
        got = flat(evaluate(build(item, params, True), *item.inputs))
        for one, want in zip(got, flat(expected), strict=True):
            np.testing.assert_allclose(one, want, rtol=item.tolerance, atol=item.tolerance)


@pytest.mark.parametrize("item", CASES, ids=str)
def test_unknown_shape(item: Case) -> None:
    """With nothing known but the number of dimensions, inference still succeeds and never claims a wrong one."""
    params = [
        rx.Var(f"x{i}", rx.TensorStructInfo(None, ir.dtype.from_numpy(array.dtype), ndim=array.ndim))
        for i, array in enumerate(item.inputs)
    ]
    bb = rx.BlockBuilder()
    try:
        call = item.build(*params)
    except ir.IRValueError as error:
        assert "known shape" in str(error)
        return
    with bb.testing_scope([]):
        info = bb.normalize(call).struct_info
    static, _ = params_of(item, False)
    check_info(info, reference(item, static), {}, False)


@pytest.mark.parametrize("item", CASES, ids=str)
def test_printed_calls_are_read_back(item: Case) -> None:
    params, _ = params_of(item, bool(item.symbolic))
    mod = build(item, params, False)
    text = mod.script(show_meta=True)
    again = from_source(text)
    ir.assert_structural_equal(again, mod)
    assert again.script(show_meta=True) == text


def test_what_python_asks_of_any_object_is_no_operator() -> None:
    """Doctest follows ``__wrapped__`` as long as there is one."""
    assert not hasattr(make, "__wrapped__")
    assert callable(make.nn.relu)


def test_average_pools_count_their_padding_where_the_field_s_do() -> None:
    counts = [
        rx.op.nn.avg_pool1d(rx.Var("x", rx.TensorStructInfo([1, 2, 8], "float32"))),
        rx.op.nn.avg_pool2d(rx.Var("x", rx.TensorStructInfo([1, 2, 8, 8], "float32"))),
        rx.op.nn.avg_pool3d(rx.Var("x", rx.TensorStructInfo([1, 2, 8, 8, 8], "float32"))),
    ]
    assert [call.attrs["count_include_pad"] for call in counts] == [True, False, True]


def test_one_hot_of_an_index_out_of_range_is_nowhere_hot() -> None:
    reference = OPERATORS["relax.one_hot"].reference
    found = reference(np.array([1, -1, 7]), 1.0, 0.0, depth=3, axis=0)
    np.testing.assert_array_equal(found, [[0, 0, 0], [1, 0, 0], [0, 0, 0]])


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int8", "uint8", "bool"])
@pytest.mark.parametrize("name", ["max", "min", "sum", "prod"])
def test_the_reference_of_a_reduction_over_nothing_is_the_identity(name: str, dtype: str) -> None:
    x = np.zeros((2, 0), ir.dtype.to_numpy(dtype))
    found = np.asarray(OPERATORS[f"relax.{name}"].reference(x, axis=(1,), keepdims=False))
    assert found.shape == (2,) and found.dtype == x.dtype
    if name in ("sum", "prod"):
        assert (found == (name == "prod")).all()
    else:
        some = np.arange(2, dtype="float32").astype(x.dtype)
        np.testing.assert_array_equal(getattr(np, f"{name}imum")(found, some), some)


_ACTIVATIONS = {
    "relu": {}, "relu6": {}, "selu": {}, "gelu": {}, "gelu_tanh": {}, "silu": {}, "leakyrelu": {"alpha": 0.1},
    "softplus": {"beta": 1.0, "threshold": 20.0}, "softmax": {"axis": -1}, "log_softmax": {"axis": -1},
}  # fmt: skip


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32", "float64"])
@pytest.mark.parametrize("shape", [(), (2,)])
@pytest.mark.parametrize("name", list(_ACTIVATIONS))
def test_references_of_activations_keep_the_dtype(name: str, shape: tuple[int, ...], dtype: str) -> None:
    """Numpy widens a bfloat16 of rank 0."""
    if not shape and "softmax" in name:
        shape = (1,)
    x = np.full(shape, 7, ir.dtype.to_numpy(dtype))
    found = np.asarray(OPERATORS[f"relax.nn.{name}"].reference(x, **_ACTIVATIONS[name]))
    assert found.dtype == x.dtype and found.shape == shape
    if name == "relu6":
        assert (found == 6).all()


@pytest.mark.parametrize("source", ["float32", "float64", "float16"])
@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "int64", "uint64"])
def test_the_reference_of_a_cast_to_integers_saturates(source: str, dtype: str) -> None:
    low, high = ir.dtype.integer_range(dtype)
    x = np.array([[np.nan, np.inf, -np.inf, -1.5, 2.9]], source)
    found = OPERATORS["relax.astype"].reference(x, dtype=dtype)
    assert found.tolist() == [[0, high, low, max(low, -1), 2]]
    assert OPERATORS["relax.astype"].reference(x[0, 1], dtype=dtype) == high
    assert OPERATORS["relax.astype"].reference(x, dtype="bool").all()


def test_references_of_windows_and_rows_without_elements() -> None:
    """A window of padding alone has the least there is, a softmax over nothing has no elements."""
    x = np.arange(4, dtype="float32").reshape(1, 1, 2, 2)
    options = {
        "pool_size": [1, 1],
        "strides": [1, 1],
        "dilation": [1, 1],
        "ceil_mode": False,
        "count_include_pad": False,
    }
    pooled = OPERATORS["relax.nn.max_pool2d"].reference(
        x, padding=[1, 1, 1, 1], layout="NCHW", out_layout="NCHW", **options
    )
    np.testing.assert_array_equal(
        pooled, np.pad(x, [(0, 0), (0, 0), (1, 1), (1, 1)], constant_values=-np.inf)
    )
    assert OPERATORS["relax.nn.softmax"].reference(np.zeros((2, 0), "float32"), axis=1).shape == (2, 0)


def test_the_reference_of_rms_norm_is_as_exact_as_its_dtype() -> None:
    x = np.array([[1.1, 2.3, 0.7]])
    found = OPERATORS["relax.nn.rms_norm"].reference(x, np.ones(3), axes=(-1,), epsilon=0.0)
    np.testing.assert_allclose(found, x / np.sqrt((x**2).mean()), rtol=1e-15)
