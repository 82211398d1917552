"""All rows by name: programs, inputs, references, costs.

>>> func = workload("C2D", (1, 14, 14, 256, 256, 3, 1, 1))
>>> arrays = inputs("C2D", (1, 14, 14, 256, 256, 3, 1, 1), seed=0)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from . import (
    activations,
    attention,
    first_suite,
    indexing,
    movement,
    norms,
    pooling,
    products,
    selection,
    tensor_core_products,
)
from .workload import Array, Language, Shape, Workload, dtype_of, extents_of, loopsmith

SUITES: dict[str, dict[str, Workload]] = {
    "operators": first_suite.WORKLOADS,
    "second": {
        name: item
        for family in (norms, activations, attention, pooling, selection, indexing, movement, products)
        for name, item in family.WORKLOADS.items()
    },
    "tensor_cores": {**tensor_core_products.WORKLOADS, **attention.FLOAT16},
}
"""Workloads by the theme that measures them."""

WORKLOADS: dict[str, Workload] = {name: item for rows in SUITES.values() for name, item in rows.items()}


def find(name: str) -> Workload:
    """The workload of a name, in capitals or not.

    Raises:
        KeyError: there is none.
    """
    for known in (name.upper(), name.lower()):
        if known in WORKLOADS:
            return WORKLOADS[known]
    raise KeyError(f"no workload {name!r} in the suites; there are {', '.join(WORKLOADS)}")


def theme(name: str) -> str:
    """The theme whose results hold the workload's rows."""
    return next(theme for theme, rows in SUITES.items() if find(name).name in rows)


def tensors(name: str, shape: Shape | None = None, lang: Language | None = None) -> list[Any]:
    """The parameters of a workload as tensors of a language: inputs, then the output."""
    return find(name).tensors(shape, lang)


def workload(name: str, shape: Shape | None = None, lang: Language | None = None) -> Any:
    """The PrimFunc of a workload; ``shape`` defaults to the first one to develop with."""
    lang = lang or loopsmith()
    return lang.te.create_prim_func(tensors(name, shape, lang))


def inputs(name: str, shape: Shape | None = None, seed: int = 0, integers: bool = False) -> list[Array]:
    """Random arrays for every parameter of the workload but the output; see :meth:`Workload.inputs`."""
    return find(name).inputs(shape, seed, integers)


def output_shape(name: str, shape: Shape | None = None) -> tuple[int, ...]:
    """Shape of the output."""
    return extents_of(tensors(name, shape)[-1])


def output_dtype(name: str, shape: Shape | None = None) -> np.dtype[Any]:
    """numpy's dtype of the output."""
    return dtype_of(tensors(name, shape)[-1])


def reference(name: str, arrays: Sequence[Array], shape: Shape | None = None) -> Array:
    """The result by numpy in float64, or exact."""
    item = find(name)
    return item.reference(arrays, *(shape or item.shapes[0]))


def flops(name: str, shape: Shape | None = None) -> int:
    """Operations that the operator needs; 0 if it only moves bytes."""
    item = find(name)
    return item.flops(*(shape or item.shapes[0])) if item.flops is not None else 0


def bytes_moved(name: str, shape: Shape | None = None) -> int:
    """Bytes that no implementation can avoid to move."""
    return find(name).bytes_moved(shape)


def parse_rows(items: Sequence[str]) -> list[tuple[str, tuple[int, ...]]]:
    """Rows as people name them: ``C2D`` (all its shapes), ``C2D:1,56,56,64,64,1,1,0``, or a suite: ``operators``, ``second``.

    Raises:
        KeyError: there is no such workload.
    """
    rows: list[tuple[str, tuple[int, ...]]] = []
    for item in items:
        name, _, dims = item.partition(":")
        if item in SUITES:
            rows += [(key, shape) for key, work in SUITES[item].items() for shape in work.shapes]
        elif dims:
            rows.append((find(name).name, tuple(int(dim) for dim in dims.split(","))))
        else:
            rows += [(find(name).name, shape) for shape in find(name).shapes]
    return rows
