"""What reads or writes at positions that are data: rows of a table, elements of each row, sums into a table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .workload import Array, Language, Peers, Workload, in_float64, table


def _rows(index: str) -> Callable[..., list[Any]]:
    def build(lang: Language, rows: int, columns: int, count: int) -> list[Any]:
        data = lang.te.placeholder((rows, columns), "float32", name="data")
        indices = lang.te.placeholder((count,), index, name="indices")
        return [data, indices, lang.topi.take(data, indices, axis=0, mode="fast")]

    return build


def _rows_drawn(index: str) -> Callable[..., list[Array]]:
    def draw(rng: np.random.Generator, rows: int, columns: int, count: int) -> list[Array]:
        data = rng.standard_normal((rows, columns)).astype("float32")
        return [data, rng.integers(0, rows, count).astype(index)]

    return draw


def _rows_moved(index: str) -> Callable[..., int]:
    """Of the table only the rows that are asked for."""
    return lambda rows, columns, count: count * (2 * 4 * columns + np.dtype(index).itemsize)


def _rows_by_numpy(arrays: Sequence[Array], *shape: int) -> Array:
    return np.take(arrays[0], arrays[1], axis=0)


def _torch_take(torch: Any, *shape: int) -> Callable[..., Any]:
    return lambda data, indices: torch.index_select(data, 0, indices)


def _torch_embedding(torch: Any, *shape: int) -> Callable[..., Any]:
    return lambda data, indices: torch.nn.functional.embedding(indices, data)


def _onnx_rows(node: Callable[..., Any], *shape: int) -> list[Any]:
    return [node("Gather", ["x0", "x1"], ["y"], axis=0)]


def _gather(lang: Language, rows: int, columns: int, count: int) -> list[Any]:
    data = lang.te.placeholder((rows, columns), "float32", name="data")
    indices = lang.te.placeholder((rows, count), "int64", name="indices")
    return [data, indices, lang.topi.gather(data, 1, indices)]


def _gather_drawn(rng: np.random.Generator, rows: int, columns: int, count: int) -> list[Array]:
    data = rng.standard_normal((rows, columns)).astype("float32")
    return [data, rng.integers(0, columns, (rows, count))]


def _gather_by_numpy(arrays: Sequence[Array], *shape: int) -> Array:
    return np.take_along_axis(arrays[0], arrays[1], axis=1)


def _scatter_add(lang: Language, rows: int, columns: int, count: int) -> list[Any]:
    data = lang.te.placeholder((rows, columns), "float32", name="data")
    indices = lang.te.placeholder((count, 1), "int64", name="indices")
    updates = lang.te.placeholder((count, columns), "float32", name="updates")
    # the tuples of indices stand along the first axis there
    out = lang.topi.scatter_nd(data, lang.topi.transpose(indices, [1, 0]), updates, "add")
    return [data, indices, updates, out]


def _scatter_add_drawn(rng: np.random.Generator, rows: int, columns: int, count: int) -> list[Array]:
    data, updates = (rng.standard_normal((n, columns)).astype("float32") for n in (rows, count))
    return [data, rng.integers(0, rows, (count, 1)), updates]


def _scatter_add_by_numpy(arrays: Sequence[Array], *shape: int) -> Array:
    data, indices, updates = arrays
    result = data.copy()
    np.add.at(result, indices[:, 0], updates)
    return result


def _torch_scatter_add(torch: Any, *shape: int) -> Callable[..., Any]:
    return lambda data, indices, updates: torch.index_add(data, 0, indices[:, 0], updates)


WORKLOADS: dict[str, Workload] = table(
    Workload(
        "take",
        "rows of a table at int32 positions (rows, columns, count)",
        ((4096, 512, 1024),),
        _rows("int32"),
        _rows_by_numpy,
        None,
        draw=_rows_drawn("int32"),
        moved=_rows_moved("int32"),
        peers=Peers(_torch_take, _onnx_rows, _rows_by_numpy),
    ),
    Workload(
        "embedding",
        "rows of a model's table at int64 positions (rows, columns, count)",
        ((30522, 768, 128),),
        _rows("int64"),
        _rows_by_numpy,
        None,
        draw=_rows_drawn("int64"),
        moved=_rows_moved("int64"),
        peers=Peers(_torch_embedding, _onnx_rows, _rows_by_numpy),
    ),
    Workload(
        "gather",
        "elements of each row at its own int64 positions (rows, columns, count)",
        ((128, 4096, 512),),
        _gather,
        _gather_by_numpy,
        None,
        draw=_gather_drawn,
        moved=lambda rows, columns, count: rows * count * (2 * 4 + 8),
        peers=Peers(
            lambda torch, *shape: lambda data, indices: torch.gather(data, 1, indices),
            lambda node, *shape: [node("GatherElements", ["x0", "x1"], ["y"], axis=1)],
            _gather_by_numpy,
        ),
    ),
    Workload(
        "scatter_add",
        "rows added into a copy of a table at int64 positions, some more than once (rows, columns, count)",
        ((4096, 256, 1024),),
        _scatter_add,
        in_float64(_scatter_add_by_numpy),
        lambda rows, columns, count: count * columns,
        draw=_scatter_add_drawn,
        peers=Peers(
            _torch_scatter_add,
            lambda node, *shape: [node("ScatterND", ["x0", "x1", "x2"], ["y"], reduction="add")],
            _scatter_add_by_numpy,
        ),
    ),
)
