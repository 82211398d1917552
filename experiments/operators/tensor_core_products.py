"""Products in the dtypes of tensor cores, of the sizes that large models have; measured on GPUs.

bfloat16 is among the second suite's products (:mod:`.products`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .workload import Array, Language, Peers, Workload, array_dtype, in_float64, table

_SHAPES = ((4096, 4096, 4096),)


def _product(dtype: str, out: str, round_to_tf32: bool = False) -> Any:
    """``x @ y`` of two matrices, summed in float32 and rounded to ``out`` once."""

    def build(lang: Language, rows: int, columns: int, inner: int) -> list[Any]:
        te = lang.te
        x = te.placeholder((rows, inner), dtype, name="x")
        y = te.placeholder((inner, columns), dtype, name="y")
        k = te.reduce_axis((0, inner), "k")

        def factor(value: Any) -> Any:
            if not round_to_tf32:
                return value.astype("float32")
            from ir import tir

            return tir.round_to_tf32(value)

        product = te.compute(
            (rows, columns), lambda i, j: te.sum(factor(x[i, k]) * factor(y[k, j]), axis=k), name="product"
        )
        if out == "float32":
            return [x, y, product]
        rounded = te.compute((rows, columns), lambda i, j: product[i, j].astype(out), name="rounded")
        return [x, y, rounded]

    return build


def _drawn(dtype: str) -> Callable[..., list[Array]]:
    def draw(rng: np.random.Generator, rows: int, columns: int, inner: int) -> list[Array]:
        kind = array_dtype(dtype)
        return [rng.standard_normal(extents).astype(kind) for extents in ((rows, inner), (inner, columns))]

    return draw


def _matmul(arrays: Sequence[Array], *shape: int) -> Array:
    return np.matmul(arrays[0], arrays[1])


def _to_tf32(x: Array) -> Array:
    """The nearest numbers with 10 bits of fraction, ties away from zero."""
    bits = np.asarray(x, "float32").view("uint32")
    return ((bits + np.uint32(1 << 12)) & np.uint32(0xFFFFE000)).view("float32")


def _tf32_matmul(arrays: Sequence[Array], *shape: int) -> Array:
    x, y = (_to_tf32(item).astype("float64") for item in arrays)
    return np.asarray(x @ y)


def _torch_matmul(torch: Any, *shape: int) -> Callable[..., Any]:
    return lambda x, y: torch.matmul(x, y)


def _torch_tf32(torch: Any, *shape: int) -> Callable[..., Any]:
    torch.backends.cuda.matmul.allow_tf32 = True
    return _torch_matmul(torch)


def _flops(*shape: int) -> int:
    return 2 * int(np.prod(shape))


WORKLOADS: dict[str, Workload] = table(
    Workload(
        "float16_product",
        "float16 matrix times float16 matrix, summed in float32 (rows, columns, inner)",
        _SHAPES,
        _product("float16", "float16"),
        in_float64(_matmul),
        _flops,
        draw=_drawn("float16"),
        peers=Peers(_torch_matmul),
    ),
    Workload(
        "tf32_product",
        "float32 matrices whose elements are rounded to tf32, summed in float32 (rows, columns, inner)",
        _SHAPES,
        _product("float32", "float32", round_to_tf32=True),
        _tf32_matmul,
        _flops,
        peers=Peers(_torch_tf32),
    ),
)
