"""What ranks or accumulates the elements of each row: argmax, running sums, the largest elements, sorting.

Inputs are permutations, so that there are no ties, which libraries break in different ways.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import ceil, log2
from typing import Any

import numpy as np

from .workload import Array, Language, Peers, Workload, in_float64, table


def _matrix(lang: Language, rows: int, columns: int) -> Any:
    return lang.te.placeholder((rows, columns), "float32", name="x")


def _without_ties(rng: np.random.Generator, rows: int, columns: int, *rest: int) -> list[Array]:
    places = rng.permuted(np.tile(np.arange(columns, dtype="float32"), (rows, 1)), axis=1)
    return [(places - columns // 2) / np.float32(columns)]


def _comparisons_of_sorting(rows: int, columns: int) -> int:
    return rows * columns * ceil(log2(columns))


def _argmax(lang: Language, rows: int, columns: int) -> list[Any]:
    x = _matrix(lang, rows, columns)
    return [x, lang.topi.cast(lang.topi.argmax(x, axis=1), "int64")]


def _cumsum(lang: Language, rows: int, columns: int) -> list[Any]:
    x = _matrix(lang, rows, columns)
    return [x, lang.topi.cumsum(x, axis=1)]


def _onnx_cumsum(node: Callable[..., Any], rows: int, columns: int) -> list[Any]:
    return [node("Constant", [], ["axis"], value_int=1), node("CumSum", ["x0", "axis"], ["y"])]


def _topk(lang: Language, rows: int, columns: int, k: int) -> list[Any]:
    x = _matrix(lang, rows, columns)
    return [x, lang.topi.topk(x, k, axis=1, ret_type="indices", dtype="int64")]


def _topk_by_numpy(arrays: Sequence[Array], rows: int, columns: int, k: int) -> Array:
    (x,) = arrays
    found = np.argpartition(-x, k - 1, axis=1)[:, :k]
    order = np.argsort(-np.take_along_axis(x, found, axis=1), axis=1)
    return np.take_along_axis(found, order, axis=1)


def _torch_topk(torch: Any, rows: int, columns: int, k: int) -> Callable[..., Any]:
    return lambda x: torch.topk(x, k, dim=1).indices


def _onnx_topk(node: Callable[..., Any], rows: int, columns: int, k: int) -> list[Any]:
    return [
        node("Constant", [], ["k"], value_ints=[k]),
        node("TopK", ["x0", "k"], ["values", "y"], axis=1),
    ]


def _sort(lang: Language, rows: int, columns: int) -> list[Any]:
    x = _matrix(lang, rows, columns)
    return [x, lang.topi.sort(x, axis=1)]


def _torch_sort(torch: Any, rows: int, columns: int) -> Callable[..., Any]:
    return lambda x: torch.sort(x, dim=1).values


def _onnx_sort(node: Callable[..., Any], rows: int, columns: int) -> list[Any]:
    # ONNX sorts by asking for all elements, the smallest first
    return [
        node("Constant", [], ["k"], value_ints=[columns]),
        node("TopK", ["x0", "k"], ["y", "indices"], axis=1, largest=0),
    ]


WORKLOADS: dict[str, Workload] = table(
    Workload(
        "argmax",
        "position of the largest element of each row, int64 (rows, columns)",
        ((128, 30522),),
        _argmax,
        lambda arrays, *shape: arrays[0].argmax(1),
        lambda rows, columns: rows * columns,
        draw=_without_ties,
        peers=Peers(
            lambda torch, *shape: lambda x: torch.argmax(x, dim=1),
            lambda node, *shape: [node("ArgMax", ["x0"], ["y"], axis=1, keepdims=0)],
            lambda arrays, *shape: arrays[0].argmax(1),
        ),
    ),
    Workload(
        "cumsum",
        "running sums of each row (rows, columns)",
        ((128, 4096),),
        _cumsum,
        in_float64(lambda arrays, *shape: arrays[0].cumsum(1)),
        lambda rows, columns: rows * columns,
        peers=Peers(
            lambda torch, *shape: lambda x: torch.cumsum(x, dim=1),
            _onnx_cumsum,
            lambda arrays, *shape: arrays[0].cumsum(1),
        ),
    ),
    Workload(
        "topk",
        "positions of the k largest elements of each row, in order, int64 (rows, columns, k); peers give the values too",
        ((8, 32000, 128), (64, 1000, 10)),
        _topk,
        lambda arrays, rows, columns, k: np.argsort(-arrays[0], axis=1)[:, :k],
        lambda rows, columns, k: rows * columns * ceil(log2(k + 1)),
        draw=_without_ties,
        peers=Peers(_torch_topk, _onnx_topk, _topk_by_numpy),
    ),
    Workload(
        "sort",
        "the elements of each row in order (rows, columns)",
        ((64, 4096),),
        _sort,
        lambda arrays, *shape: np.sort(arrays[0], axis=1),
        _comparisons_of_sorting,
        draw=_without_ties,
        peers=Peers(_torch_sort, _onnx_sort, lambda arrays, *shape: np.sort(arrays[0], axis=1)),
    ),
)
