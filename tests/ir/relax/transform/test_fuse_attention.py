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
from ir.script import from_source
from ir.target import Target
from ir.transform import PassContext, Sequential
from runners import VirtualMachine, cpu

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


def _scaled(value: Any, built: Attention) -> Any:
    return relax.op.multiply(value, relax.const(0.1118, built.dtype))


def _masked(value: Any, built: Attention) -> Any:
    lowest = relax.const(np.finfo(built.dtype).min, built.dtype)
    hidden = built.emit(relax.op.greater(built.mask, relax.const(0.5, built.dtype)))
    return relax.op.where(hidden, lowest, built.emit(_scaled(value, built)))


def _masked_by_a_product(value: Any, built: Attention) -> Any:
    lowest = relax.const(np.finfo(built.dtype).min, built.dtype)
    return relax.op.add(built.emit(_scaled(value, built)), built.emit(relax.op.multiply(built.mask, lowest)))


def _clipped(value: Any, built: Attention) -> Any:
    return relax.op.clip(built.emit(_scaled(value, built)), -1e30, 2e30)


def _broadcast(value: Any, built: Attention) -> Any:
    return relax.op.broadcast_to(built.emit(_scaled(value, built)), (1, HEADS, ROWS, KEYS))


@pytest.mark.parametrize("size", [1.0, 1e16])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("last", [_scaled, _masked, _masked_by_a_product, _clipped, _broadcast])
def test_scores_of_any_size_and_masks_of_the_lowest_number(
    last: Callable[[Any, Attention], Any], dtype: str, size: float
) -> None:
    """Built: where a product were rounded once with the subtraction of the maximum, exp of large scores would overflow."""

    def make(built: Attention) -> list[Any]:
        return [built.mix(built.emit(last(built.emit(relax.op.matmul(built.q, built.k)), built)))]

    built = Attention(dtype)
    mod = fused(built.finish(make))
    assert len(merged(mod)) == 1
    q, k, v, _ = built.inputs()
    q, k = q * q.dtype.type(size), k * k.dtype.type(size)
    mask = (np.arange(ROWS * KEYS).reshape(1, 1, ROWS, KEYS) % 3 == 0).astype(dtype)
    mask[0, 0, 1] = 1  # a row of which all is hidden
    scores = (q @ k) * q.dtype.type(0.1118)
    if last is _clipped:
        scores = scores.clip(-1e30, 2e30)
    elif last is _masked:
        scores = np.where(mask > 0.5, np.finfo(dtype).min, scores)
    elif last is _masked_by_a_product:
        with np.errstate(over="ignore"):  # below the lowest number is -infinity
            scores = scores + mask * np.finfo(dtype).min
    weights = np.exp(scores.astype("float64") - scores.max(-1, keepdims=True))
    expected = weights / weights.sum(-1, keepdims=True) @ v
    module = VirtualMachine(relax.build(mod, Target("llvm")), cpu())["main"]
    (result,) = module(q, k, v, mask)
    # what is lost in scores is lost in exponents: one or the other key may be the maximum
    close = np.isclose(result.numpy(), expected, rtol=1e-4, atol=1e-5)
    assert np.isfinite(result.numpy()).all()
    assert close.all() if size == 1.0 else close.mean() >= 0.9


@pytest.mark.parametrize("axis", [-1, 3])
def test_the_last_axis_by_either_number(axis: int) -> None:
    assert merged(fused(Attention().finish(lambda built: [built.mix(built.scores(), axis)])))


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


def _rounded_between(built: Attention) -> list[Any]:
    narrow = built.emit(relax.op.astype(built.scores(), "float16"))
    return [built.mix(built.emit(relax.op.astype(narrow, "float32")))]


def _wider_result(built: Attention) -> list[Any]:
    shares = built.emit(relax.op.nn.softmax(built.scores(), -1))
    return [built.emit(relax.op.matmul(shares, built.v, out_dtype="float64"))]


def _one_query(built: Attention) -> list[Any]:
    """Scores of rank 1."""
    query = built.emit(relax.op.strided_slice(built.v, [0, 1, 2], [0, 0, 0], [1, 1, 1]))
    scores = built.emit(
        relax.op.matmul(
            built.emit(relax.op.reshape(query, (SIZE,))),
            built.emit(relax.op.zeros((SIZE, KEYS), built.dtype)),
        )
    )
    values = built.emit(relax.op.zeros((KEYS, SIZE), built.dtype))
    return [built.emit(relax.op.matmul(built.emit(relax.op.nn.softmax(scores, -1)), values))]


def _one_value(built: Attention) -> list[Any]:
    """A vector of values, to which matrices of scores have no axes in common either."""
    scores = built.emit(relax.op.zeros((ROWS, SIZE), built.dtype))
    scores = built.emit(relax.op.matmul(scores, built.emit(relax.op.zeros((SIZE, KEYS), built.dtype))))
    values = built.emit(relax.op.zeros((KEYS,), built.dtype))
    return [built.emit(relax.op.matmul(built.emit(relax.op.nn.softmax(scores, -1)), values))]


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
        _rounded_between,
        _wider_result,
        _one_query,
        _one_value,
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


def test_unknown_extents_stay_without_steps_too() -> None:
    built = Attention(batch=tir.Var("n", "int64"))
    mod = built.finish(lambda item: [item.mix(item.emit(relax.op.matmul(item.q, item.k)))])
    assert merged(fused(mod)) == []


_NUMBER_OF_THE_CALLER = """
@R.function
def main(
    q: R.Tensor((2, 5, 3), "float32"),
    k: R.Tensor((2, 3, 7), "float32"),
    v: R.Tensor((2, 7, 3), "float32"),
    most: R.Shape(["n"]),
):
    n = T.int64()
    with R.dataflow():
        s = R.clip(R.matmul(q, k), 0, {most})
        o = R.matmul(R.nn.softmax(s), v)
        R.output(o)
    return o
"""


@pytest.mark.parametrize(("most", "is_merged"), [("5", True), ("n", False)])
def test_numbers_of_the_caller_stay_outside(most: str, is_merged: bool) -> None:
    mod = IRModule.from_expr(from_source(_NUMBER_OF_THE_CALLER.format(most=most)))
    assert bool(merged(fused(transform.CanonicalizeBindings()(mod)))) == is_merged


def test_only_scores_beyond_the_second_caches_and_on_cpus() -> None:
    mod = Attention().finish(plain)
    n_bytes = HEADS * ROWS * KEYS * 4
    assert merged(fused(mod, n_bytes - 1)) and not merged(fused(mod, n_bytes))
    assert not merged(fused(mod, 0))
    assert not merged(fused(mod, 1, Target("nvidia/nvidia-a100")))
    assert not merged(transform.FuseAttention(1)(mod))


def test_scores_count_by_their_bytes_and_the_caches_of_all_cores() -> None:
    n_scores = HEADS * ROWS * KEYS
    mod = Attention("float64").finish(plain)
    assert merged(fused(mod, 8 * n_scores - 1)) and not merged(fused(mod, 8 * n_scores))
    for n_cores, is_merged in ((3, True), (4, False)):
        target = Target(f"llvm -mcpu=haswell -num-cores {n_cores} -l2-cache-bytes {2 * n_scores}")
        assert bool(merged(fused(mod, 0, target))) == is_merged


@pytest.mark.parametrize("attribute", ["Primitive", "Composite", "Codegen"])
def test_functions_that_are_made_already_stay(attribute: str) -> None:
    mod = Attention().finish(plain)
    made = mod.clone()
    made.update_func(
        made.get_global_var("main"),
        mod["main"].with_attr(attribute, True if attribute == "Primitive" else "x"),
    )
    assert fused(made) is not made and list(fused(made).functions) == list(made.functions)


def test_names_that_are_taken_stay_the_names_of_what_has_them() -> None:
    built = Attention()
    mod = built.finish(plain)
    once = fused(mod)
    names = {var.name_hint for var in once.functions}
    twice = once.clone()
    other = Attention()
    (var,) = [var for var in twice.functions if var.name_hint == "main"]
    twice.update_func(
        var, other.finish(lambda item: [item.mix(item.emit(relax.op.exp(item.scores())))])["main"]
    )
    again = fused(twice)
    check_well_formed(again)
    assert len({item.name_hint for item in again.functions}) == len(again.functions)
    assert names < {item.name_hint for item in again.functions}


def test_where_operators_stay_attention_stays() -> None:
    """The merged function would hold operators where FuseTIR wants kernels."""
    built = Attention()
    mod = built.finish(plain)
    with CPU, PassContext(config={"relax.transform.apply_legalize_ops": False}):
        result = Sequential([transform.FuseAttention(1), *graph_passes()])(mod)
    assert [var.name_hint for var in result.functions] == ["main"]
    assert_same(result, built.inputs())


_IN_PLACE = """
@I.ir_module
class Module:
    @T.prim_func(private=True)
    def add_to(a: T.Buffer((2, 5, 7), "float32"), b: T.Buffer((2, 5, 7), "float32")):
        for i, j, k in T.grid(2, 5, 7):
            with T.block("b"):
                vi, vj, vk = T.axis.remap("SSS", [i, j, k])
                b[vi, vj, vk] = b[vi, vj, vk] + a[vi, vj, vk]

    @R.function
    def main(
        q: R.Tensor((2, 5, 3), "float32"),
        k: R.Tensor((2, 3, 7), "float32"),
        v: R.Tensor((2, 7, 3), "float32"),
        mask: R.Tensor((2, 5, 7), "float32"),
        other: R.Tensor((2, 5, 7), "float32"),
    ):
        cls = Module
        with R.dataflow():
            s = R.matmul(q, k)
            masked = R.add(s, mask)
            sum = R.call_tir_inplace(
                cls.add_to, (mask, {target}), out_sinfo=R.Tensor((2, 5, 7), "float32"), inplace_indices=[1]
            )
            p = R.nn.softmax(masked)
            o = R.matmul(p, v)
            R.output(o, sum)
        return (o, sum)
"""


@pytest.mark.parametrize("target", ["mask", "other"])
def test_what_is_written_to_is_read_where_it_was(target: str) -> None:
    mod = from_source(_IN_PLACE.format(target=target))
    assert bool(merged(fused(mod))) == (target == "other")


_CAPTURES = """
@I.ir_module
class Module:
    @R.function
    def main(q: R.Tensor((2, 5, 3), "float32"), k: R.Tensor((2, 3, 7), "float32"), v: R.Tensor((2, 7, 3), "float32")):
        with R.dataflow():
            s = R.matmul(q, k)
            p = R.nn.softmax(s)
            o = R.matmul(p, v)

            @R.function
            def inner(x: R.Tensor((2, 5, 3), "float32")) -> R.Tensor((2, 5, 3), "float32"):
                return R.add(x, R.sum({captured}, axis=-1, keepdims=True))

            gv = inner(q)
            R.output(o, gv)
        return (o, gv)
"""


@pytest.mark.parametrize(("captured", "is_merged"), [("s", False), ("p", False), ("o", True)])
def test_what_local_functions_take_is_used(captured: str, is_merged: bool) -> None:
    mod = from_source(_CAPTURES.format(captured=captured))
    assert bool(merged(fused(mod))) == is_merged
    check_well_formed(fused(mod))
    rng = np.random.default_rng(0)
    inputs = [rng.standard_normal(shape).astype("float32") for shape in ((2, 5, 3), (2, 3, 7), (2, 7, 3))]
    for before, after in zip(evaluate(mod, *inputs), evaluate(fused(mod), *inputs), strict=True):
        np.testing.assert_allclose(np.asarray(after), np.asarray(before), rtol=1e-5, atol=1e-6)


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
