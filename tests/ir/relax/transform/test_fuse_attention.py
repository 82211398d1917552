"""FuseAttention: scores, softmax and the product with the values become one kernel where the scores are large."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from ir import IRModule, relax, tir
from ir.expr import GlobalVar
from ir.relax import transform
from ir.relax.analysis import check_well_formed
from ir.relax.expr import Call
from ir.relax.pipeline import graph_passes
from ir.relax.testing import evaluate
from ir.target import Target
from ir.transform import Sequential

CPU = Target("llvm -mcpu=haswell -num-cores 2")
HEADS, ROWS, KEYS, SIZE = 2, 5, 7, 3


class Attention:
    """Builds ``main(q, k, v, mask)`` from steps that a test names."""

    def __init__(self, dtype: str = "float32", batch: Any = 1, value_batch: Any = None) -> None:
        self.block = relax.BlockBuilder()
        self.dtype = dtype
        front = (batch, HEADS)
        self.q = self._var("q", (*front, ROWS, SIZE))
        self.k = self._var("k", (*front, SIZE, KEYS))
        self.v = self._var("v", (*((value_batch, 1) if value_batch else front), KEYS, SIZE))
        self.mask = self._var("mask", (1, 1, ROWS, KEYS))

    def _var(self, name: str, shape: tuple[Any, ...]) -> Any:
        return relax.Var(name, relax.TensorStructInfo(shape, self.dtype))

    def emit(self, value: Any) -> Any:
        return self.block.emit(value)

    def scores(self) -> Any:
        """Scaled and masked."""
        raw = self.emit(relax.op.matmul(self.q, self.k))
        return self.emit(
            relax.op.add(self.emit(relax.op.multiply(raw, relax.const(0.5, self.dtype))), self.mask)
        )

    def mix(self, scores: Any, axis: int = -1) -> Any:
        return self.emit(relax.op.matmul(self.emit(relax.op.nn.softmax(scores, axis)), self.v))

    def finish(self, make: Callable[[Attention], Any]) -> IRModule:
        with self.block.function("main", [self.q, self.k, self.v, self.mask]):
            with self.block.dataflow():
                results = make(self)
                results = [self.block.emit_output(item) for item in results]
            self.block.emit_func_output(results)
        return self.block.get()

    def inputs(self) -> list[np.ndarray]:
        rng = np.random.default_rng(0)
        params = [self.q, self.k, self.v, self.mask]
        return [
            rng.standard_normal([int(n) for n in param.struct_info.shape_values]).astype(self.dtype)
            for param in params
        ]


def plain(built: Attention) -> list[Any]:
    return [built.mix(built.scores())]


def fused(mod: IRModule, min_bytes: int = 1, target: Target = CPU) -> IRModule:
    with target:
        return transform.FuseAttention(min_bytes)(mod)


def merged(mod: IRModule) -> list[str]:
    """Names of the primitive functions."""
    return [
        var.name_hint
        for var, func in mod.functions.items()
        if isinstance(func, relax.Function) and func.attrs.get("Primitive")
    ]


def assert_same(mod: IRModule, inputs: list[np.ndarray], tolerance: float = 1e-5) -> None:
    """The module computes what numpy does of attention, before and after, and legalized to one kernel."""
    q, k, v, mask = (item.astype("float64") for item in inputs)
    scores = q @ k * 0.5 + mask
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    wanted = weights / weights.sum(-1, keepdims=True) @ v
    with CPU:
        kernel = Sequential(
            [
                transform.LegalizeOps(),
                transform.AnnotateTIROpPattern(),
                transform.FuseOps(),
                transform.FuseTIR(),
            ]
        )(fused(mod))
    assert sum(isinstance(func, tir.PrimFunc) for func in kernel.functions.values()) == 1
    for module in (mod, fused(mod), kernel):
        found = evaluate(module, *inputs)
        found = found[0] if isinstance(found, list | tuple) else found
        np.testing.assert_allclose(np.asarray(found), wanted, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_attention_becomes_one_kernel(dtype: str) -> None:
    built = Attention(dtype)
    mod = built.finish(plain)
    assert merged(fused(mod)) == ["fused_matmul_multiply_add_nn_softmax_matmul"]
    assert_same(mod, built.inputs(), 1e-5 if dtype == "float32" else 1e-12)


def test_the_call_takes_what_the_steps_take_but_no_scalars() -> None:
    mod = fused(Attention().finish(plain))
    (var,) = [var for var in mod.functions if var.name_hint.startswith("fused")]
    assert [param.name_hint for param in mod[var].params] == ["q", "k", "mask", "v"]
    call = mod["main"].body.blocks[0].bindings[0].value
    assert isinstance(call, Call) and isinstance(call.op, GlobalVar)


@pytest.mark.meaning("relax-attention")
def test_rows_of_minus_infinity_and_nan_are_as_before() -> None:
    built = Attention()
    inputs = built.inputs()
    inputs[3][0, 0, 1] = -np.inf
    inputs[3][0, 0, 2, 3:] = -np.inf
    inputs[0][0, 1, 3] = np.nan
    mod = built.finish(plain)
    before, after = (np.asarray(evaluate(item, *inputs)[0]) for item in (mod, fused(mod)))
    assert np.isnan(before[0, 0, 1]).all() and np.isnan(before[0, 1, 3]).all()
    np.testing.assert_allclose(after, before, rtol=1e-5, atol=1e-6)


@pytest.mark.meaning("relax-attention")
def test_at_the_ends_the_division_behind_the_product_shows() -> None:
    """Values near the largest number overflow in the sum; beside an infinite one a small exponential is not 0 yet."""
    built = Attention()
    inputs = built.inputs()
    inputs[0][:], inputs[1][:], inputs[3][:] = 0, 0, 0
    inputs[2][0, 0, :, 0] = 0.9 * np.finfo("float32").max
    inputs[2][0, 1] = 1
    inputs[2][0, 1, 6, 0] = np.inf
    inputs[3][..., 6] = -103  # exp(-103) is the smallest float, a sixth of it is 0
    mod = built.finish(plain)
    before, after = (np.asarray(evaluate(item, *inputs)[0]) for item in (mod, fused(mod)))
    assert np.isfinite(before[0, 0]).all() and np.isinf(after[0, 0, :, 0]).all()
    assert np.isnan(before[0, 1, :, 0]).all() and np.isinf(after[0, 1, :, 0]).all()
    np.testing.assert_allclose(after[..., 1:], before[..., 1:], rtol=1e-5)


def test_masks_that_choose_and_biases_that_are_made_for_it_alone() -> None:
    def make(built: Attention) -> list[Any]:
        raw = built.emit(relax.op.matmul(built.q, built.k))
        flags = built.emit(relax.op.greater(raw, relax.const(100.0)))
        bias = built.emit(relax.op.broadcast_to(built.mask, (1, HEADS, ROWS, KEYS)))
        biased = built.emit(relax.op.add(bias, built.emit(relax.op.matmul(built.q, built.k))))
        return [built.mix(biased), flags]

    mod = Attention().finish(make)
    assert merged(fused(mod)) == ["fused_matmul_add_nn_softmax_matmul"]
    built = Attention()
    for before, after in zip(
        evaluate(mod, *built.inputs()), evaluate(fused(mod), *built.inputs()), strict=True
    ):
        np.testing.assert_allclose(np.asarray(after), np.asarray(before), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("scale", "is_merged"), [(0.125, True), (-4.0, True), (0.1118, False)])
def test_a_product_just_before_the_softmax_must_be_exact(scale: float, is_merged: bool) -> None:
    """Rounded once with the subtraction of the maximum, it is not 0 there: of scores near the largest number exp overflows."""

    def make(built: Attention) -> list[Any]:
        masked = built.emit(relax.op.add(built.emit(relax.op.matmul(built.q, built.k)), built.mask))
        return [built.mix(built.emit(relax.op.multiply(masked, relax.const(scale))))]

    assert bool(merged(fused(Attention().finish(make)))) == is_merged


@pytest.mark.parametrize("shape", [(), (1,), (1, 1, 1, 1)])
def test_constants_of_one_element_of_any_rank(shape: tuple[int, ...]) -> None:
    def make(built: Attention) -> list[Any]:
        raw = built.emit(relax.op.matmul(built.q, built.k))
        scaled = built.emit(relax.op.multiply(raw, relax.const(np.full(shape, 0.5, "float32"))))
        seen = relax.const(np.full(shape, True))
        return [
            built.mix(built.emit(relax.op.where(seen, scaled, relax.const(np.full(shape, -9.0, "float32")))))
        ]

    built = Attention()
    mod = built.finish(make)
    assert merged(fused(mod)) == ["fused_matmul_multiply_where_nn_softmax_matmul"]
    inputs = built.inputs()
    inputs[3][:] = 0
    assert_same(mod, inputs)


def test_an_attention_whose_result_is_the_scores_of_another_is_one_of_its_own() -> None:
    def make(built: Attention) -> list[Any]:
        scores = built.mix(built.scores())
        return [built.emit(relax.op.matmul(built.emit(relax.op.nn.softmax(scores, -1)), built.k))]

    built = Attention()
    mod = built.finish(make)
    assert merged(fused(mod)) == ["fused_matmul_multiply_add_nn_softmax_matmul"]
    check_well_formed(fused(mod))
    before, after = (np.asarray(evaluate(item, *built.inputs())[0]) for item in (mod, fused(mod)))
    np.testing.assert_allclose(after, before, rtol=1e-5, atol=1e-6)


def _shares_used_twice(built: Attention) -> list[Any]:
    shares = built.emit(relax.op.nn.softmax(built.scores(), -1))
    return [built.emit(relax.op.matmul(shares, built.v)), shares]


def _scores_used_twice(built: Attention) -> list[Any]:
    scores = built.scores()
    return [built.mix(scores), built.emit(relax.op.exp(scores))]


def _two_products(built: Attention) -> list[Any]:
    first, second = (built.emit(relax.op.matmul(built.q, built.k)) for _ in range(2))
    return [built.mix(built.emit(relax.op.add(first, second)))]


def _no_product(built: Attention) -> list[Any]:
    return [built.mix(built.emit(relax.op.broadcast_to(built.mask, (1, HEADS, ROWS, KEYS))))]


def _moved(built: Attention) -> list[Any]:
    raw = built.emit(relax.op.matmul(built.q, built.k))
    flat = built.emit(relax.op.reshape(raw, (1, HEADS, ROWS * KEYS)))
    return [built.mix(built.emit(relax.op.reshape(flat, (1, HEADS, ROWS, KEYS))))]


def _other_axis(built: Attention) -> list[Any]:
    return [built.mix(built.scores(), axis=-2)]


def _shares_on_the_right(built: Attention) -> list[Any]:
    shares = built.emit(relax.op.nn.softmax(built.scores(), -1))
    return [
        built.emit(
            relax.op.matmul(
                built.emit(relax.op.permute_dims(built.v, [0, 1, 3, 2])),
                built.emit(relax.op.permute_dims(shares, [0, 1, 3, 2])),
            )
        )
    ]


def _many_steps(built: Attention) -> list[Any]:
    value = built.emit(relax.op.matmul(built.q, built.k))
    for _ in range(17):
        value = built.emit(relax.op.add(value, built.mask))
    return [built.mix(value)]


@pytest.mark.parametrize(
    "make",
    [
        _shares_used_twice,
        _scores_used_twice,
        _two_products,
        _no_product,
        _moved,
        _other_axis,
        _shares_on_the_right,
        _many_steps,
    ],
)
def test_what_is_no_chain_of_its_own_stays(make: Callable[[Attention], list[Any]]) -> None:
    mod = Attention().finish(make)
    assert merged(fused(mod)) == []


def test_narrow_floats_unknown_extents_and_broadcast_values_stay() -> None:
    for built in (
        Attention("float16"),
        Attention(batch=tir.Var("n", "int64")),
        Attention(batch=2, value_batch=1),
    ):
        assert merged(fused(built.finish(plain))) == []


def test_only_scores_beyond_the_second_caches_and_on_cpus() -> None:
    mod = Attention().finish(plain)
    n_bytes = HEADS * ROWS * KEYS * 4
    assert merged(fused(mod, n_bytes - 1)) and not merged(fused(mod, n_bytes))
    assert not merged(fused(mod, 0))
    assert not merged(fused(mod, 1, Target("nvidia/nvidia-a100")))
    assert not merged(transform.FuseAttention(1)(mod))


def test_large_attention_is_one_task_of_a_model() -> None:
    block = relax.BlockBuilder()
    q, k, v = (
        relax.Var(name, relax.TensorStructInfo(shape, "float32"))
        for name, shape in (("q", (1, 8, 512, 16)), ("k", (1, 8, 16, 512)), ("v", (1, 8, 512, 16)))
    )
    with block.function("main", [q, k, v]):
        with block.dataflow():
            shares = block.emit(relax.op.nn.softmax(block.emit(relax.op.matmul(q, k)), -1))
            result = block.emit_output(relax.op.matmul(shares, v))
        block.emit_func_output(result)
    with Target("llvm -mcpu=haswell -num-cores 2"):
        mod = Sequential(graph_passes())(block.get())
    assert [var.name_hint for var, func in mod.functions.items() if isinstance(func, tir.PrimFunc)] == [
        "fused_matmul_nn_softmax_matmul"
    ]
