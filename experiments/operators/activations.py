"""GELU and softmax: functions of each element, and of each row."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .first_suite import softmax, softmax_by_numpy
from .workload import Array, Language, Peers, Workload, in_float64, table


def _gelu(lang: Language, rows: int, columns: int) -> list[Any]:
    x = lang.te.placeholder((rows, columns), "float32", name="x")
    y = lang.te.compute(
        (rows, columns),
        lambda i, j: x[i, j] * (lang.te.erf(x[i, j] * math.sqrt(0.5)) * 0.5 + 0.5),
        name="gelu",
    )
    return [x, y]


def _gelu_reference(arrays: Sequence[Array], rows: int, columns: int) -> Array:
    x = arrays[0].astype("float64")
    return np.asarray(x * (np.vectorize(math.erf)(x * math.sqrt(0.5)) * 0.5 + 0.5))


def _torch_softmax(torch: Any, rows: int, columns: int) -> Callable[..., Any]:
    return lambda x: torch.softmax(x, dim=1)


WORKLOADS: dict[str, Workload] = table(
    Workload(
        "gelu",
        "GELU by the error function (rows, columns)",
        ((128, 3072),),
        _gelu,
        _gelu_reference,
        lambda rows, columns: 5 * rows * columns,
        peers=Peers(
            lambda torch, rows, columns: torch.nn.functional.gelu,
            lambda node, rows, columns: [node("Gelu", ["x0"], ["y"])],
        ),
    ),
    Workload(
        "softmax",
        "softmax over the columns (rows, columns)",
        ((4096, 64), (128, 30522)),
        softmax,
        in_float64(softmax_by_numpy),
        lambda rows, columns: 4 * rows * columns,
        peers=Peers(
            _torch_softmax,
            lambda node, rows, columns: [node("Softmax", ["x0"], ["y"], axis=1)],
            softmax_by_numpy,
        ),
    ),
)
