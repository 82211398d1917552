"""A result is new memory unless its operator declares a view: evaluated and built, also where the operator has nothing to do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import runners
from ir import relax as rx
from ir.relax.testing import evaluate

from .calls import build, flat, origins, params_of
from .cases import CASES, Case

R = rx.op
X = np.arange(1, 7, dtype="float32").reshape(2, 3)
IMAGE = np.arange(32, dtype="float32").reshape(1, 2, 4, 4)
BEGIN, END, STEP = (rx.const(np.array(numbers, "int64"), "int64") for numbers in ([0, 0], [2, 3], [1, 1]))
NO_ROWS = rx.const(np.zeros((0, 3), "int64"), "int64")

NOTHING_TO_DO: dict[str, Callable[[Any], Any]] = {
    "permute_dims": lambda x: R.permute_dims(x, [0, 1]),
    "permute_dims of extents of 1": lambda x: R.permute_dims(R.reshape(x, (1, 2, 3)), [1, 0, 2]),
    "permute_dims of one axis": lambda x: R.permute_dims(R.reshape(x, (6,))),
    "reshape": lambda x: R.reshape(x, (2, 3)),
    "flatten": lambda x: R.flatten(R.reshape(x, (6,))),
    "expand_dims": lambda x: R.expand_dims(x, []),
    "squeeze": lambda x: R.squeeze(x, []),
    "squeeze of no extent of 1": R.squeeze,
    "strided_slice": lambda x: R.strided_slice(x, [0, 1], [0, 0], [2, 3]),
    "dynamic_strided_slice": lambda x: R.dynamic_strided_slice(x, BEGIN, END, STEP),
    "broadcast_to": lambda x: R.broadcast_to(x, (2, 3)),
    "collapse_sum_to": lambda x: R.collapse_sum_to(x, (2, 3)),
    "collapse_sum_like": lambda x: R.collapse_sum_like(x, x),
    "astype": lambda x: R.astype(x, "float32"),
    "tile": lambda x: R.tile(x, [1, 1]),
    "repeat": lambda x: R.repeat(x, 1, 0),
    "pad": lambda x: R.nn.pad(x, (0, 0, 0, 0)),
    "concat": lambda x: R.concat([x], 0),
    "split": lambda x: R.split(x, 1, 0),
    "split into rows": lambda x: R.split(x, 2, 0),
    "flip": lambda x: R.flip(R.reshape(x, (1, 6)), 0),
    "cumsum": lambda x: R.cumsum(R.reshape(x, (1, 6)), 0),
    "stack": lambda x: R.stack([x], 0),
    "meshgrid": lambda x: R.meshgrid([R.reshape(x, (6,))]),
    "layout_transform": lambda x: R.layout_transform(x, lambda i, j: (i, j)),
    "einsum": lambda x: R.einsum([x], "ij->ij"),
    "take": lambda x: R.take(x, rx.const(np.array([0, 1])), 0),
    "gather_elements": lambda x: R.gather_elements(x, rx.const(np.array([[0] * 3, [1] * 3])), 0),
    "index_tensor": lambda x: R.index_tensor(x, [rx.const(np.array([0, 1]))]),
    "scatter_elements": lambda x: R.scatter_elements(x, NO_ROWS, rx.const(np.zeros((0, 3), "float32")), 0),
    "slice_scatter": lambda x: R.slice_scatter(x, x, 0, 2, 1, 0),
    "where": lambda x: R.where(rx.const(np.ones((2, 3), bool)), x, x),
    "maximum": lambda x: R.maximum(x, x),
    "add": lambda x: R.add(x, rx.const(0.0, "float32")),
    "multiply": lambda x: R.multiply(x, rx.const(1.0, "float32")),
    "clip": lambda x: R.clip(x, 0, 100),
    "triu": lambda x: R.triu(x, -9),
    "tril": lambda x: R.tril(x, 9),
    "sort": lambda x: R.sort(R.reshape(x, (6, 1)), 1),
    "topk": lambda x: R.topk(x, 3, 1, largest=False),
    **{f"{name} of no axis": lambda x, f=f: f(x, []) for name, f in
       {"sum": R.sum, "prod": R.prod, "max": R.max, "mean": R.mean}.items()},
    **{f.__name__: f for f in (R.abs, R.round, R.floor, R.ceil, R.trunc, R.nn.relu, R.nn.dropout, R.grad.no_grad)},
    "memory.view": R.memory.view,
    "memory.ensure_zero_offset": R.memory.ensure_zero_offset,
    "builtin.stop_lift_params": R.builtin.stop_lift_params,
}  # fmt: skip
OF_IMAGES: dict[str, Callable[[Any], Any]] = {
    "max_pool2d": lambda x: R.nn.max_pool2d(x, 1),
    "avg_pool2d": lambda x: R.nn.avg_pool2d(x, 1),
    "adaptive_avg_pool2d": lambda x: R.nn.adaptive_avg_pool2d(x, (4, 4)),
    "resize2d": lambda x: R.image.resize2d(x, (4, 4), layout="NCHW"),
    "pixel_shuffle": lambda x: R.nn.pixel_shuffle(x, 1),
}
IDENTITIES = [Case(name, make, [X]) for name, make in NOTHING_TO_DO.items()]
IDENTITIES += [Case(name, make, [IMAGE]) for name, make in OF_IMAGES.items()]


def declared(item: Case) -> list[set[int]]:
    """For each field of the result the arguments that it may be memory of, as the analysis reads it from the declarations."""
    main = build(item, params_of(item, False)[0], False)["main"]
    return [{number for number, _ in field} for field in origins(main)]


def shared(results: Sequence[np.ndarray], given: Sequence[np.ndarray]) -> list[set[int]]:
    return [
        {number for number, array in enumerate(given) if np.may_share_memory(result, array)}
        for result in results
    ]


def evaluated(item: Case) -> list[set[int]]:
    given = [np.array(array) for array in item.inputs]
    return shared(flat(evaluate(build(item, params_of(item, False)[0], False), *given)), given)


def natively(item: Case) -> list[set[int]]:
    given = [np.array(array) for array in item.inputs]
    built = rx.build(build(item, params_of(item, False)[0], False), "llvm")
    result = runners.VirtualMachine(built, runners.cpu())["main"](*given)
    fields = result if isinstance(result, tuple | list) else [result]
    return shared([field.data for field in fields], given)


@pytest.mark.meaning("relax-fresh")
@pytest.mark.parametrize("item", [*CASES, *IDENTITIES], ids=str)
def test_the_evaluator_shares_no_more_memory_than_declared(item: Case) -> None:
    for done, allowed in zip(evaluated(item), declared(item), strict=True):
        assert done <= allowed


@pytest.mark.meaning("relax-fresh")
@pytest.mark.parametrize("item", IDENTITIES, ids=str)
def test_native_code_shares_no_more_memory_than_declared(item: Case) -> None:
    for done, allowed in zip(natively(item), declared(item), strict=True):
        assert done <= allowed


@pytest.mark.meaning("relax-view")
@pytest.mark.parametrize("name", sorted({item.op for item in CASES if any(declared(item))}))
def test_what_is_declared_a_view_is_one_somewhere(name: str) -> None:
    """A declaration that nothing needs keeps memory alive, and calls from being done in place."""
    cases = [item for item in CASES if item.op == name]
    assert any(any(evaluated(item)) for item in cases) or any(any(natively(item)) for item in cases)


@pytest.mark.meaning("relax-fresh")
def test_fields_of_one_result_are_apart() -> None:
    """A reference may hand on pieces of one array."""
    (item,) = [item for item in IDENTITIES if item.op == "split into rows"]
    first, second = flat(evaluate(build(item, params_of(item, False)[0], False), X))
    assert not np.may_share_memory(first, second)
