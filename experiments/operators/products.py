"""Products of shapes and dtypes that square float32 ones say nothing about: a vector, a short sum, odd sizes, int8, bfloat16.

Where a model's weights are one side, that is a layout-free placeholder, and other libraries get it as a constant.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .first_suite import batch_matmul
from .workload import Array, Language, Peers, Workload, array_dtype, in_float64, table


def _product(
    dtype: str = "float32", total: str = "float32", out: str = "float32", weights: bool = True
) -> Any:
    """``x @ y`` of two matrices, summed in ``total`` and rounded to ``out`` once."""

    def build(lang: Language, rows: int, columns: int, inner: int) -> list[Any]:
        x = lang.te.placeholder((rows, inner), dtype, name="x")
        y = lang.te.placeholder((inner, columns), dtype, name="y")
        k = lang.te.reduce_axis((0, inner), "k")
        product = lang.te.compute(
            (rows, columns),
            lambda i, j: lang.te.sum(x[i, k].astype(total) * y[k, j].astype(total), axis=k),
            name="product",
            attrs={"layout_free_placeholders": [y]} if weights else {},
        )
        if out == total:
            return [x, y, product]
        return [
            x,
            y,
            lang.te.compute((rows, columns), lambda i, j: product[i, j].astype(out), name="rounded"),
        ]

    return build


def _matvec(lang: Language, columns: int, inner: int) -> list[Any]:
    return list(_product()(lang, 1, columns, inner))


def _matmul(arrays: Sequence[Array], *shape: int) -> Array:
    return np.matmul(arrays[0], arrays[1])


def _as_linear_holds_it(weight: Any) -> Any:
    """The sum's axis innermost, as ``torch.nn.Linear`` has it: PyTorch's narrow products are several times as fast on that."""
    return weight.t().contiguous().t()


def _torch_matmul(torch: Any, *shape: int) -> Callable[..., Any]:
    return lambda x, y: torch.matmul(x, y)


def _onnx_matmul(node: Callable[..., Any], *shape: int) -> list[Any]:
    return [node("MatMul", ["x0", "x1"], ["y"])]


def _int8_drawn(rng: np.random.Generator, rows: int, columns: int, inner: int) -> list[Array]:
    return [rng.integers(-128, 128, extents).astype("int8") for extents in ((rows, inner), (inner, columns))]


def _bfloat16_drawn(rng: np.random.Generator, rows: int, columns: int, inner: int) -> list[Array]:
    kind = array_dtype("bfloat16")
    return [rng.standard_normal(extents).astype(kind) for extents in ((rows, inner), (inner, columns))]


def _flops(*shape: int) -> int:
    return 2 * int(np.prod(shape))


WORKLOADS: dict[str, Workload] = table(
    Workload(
        "matvec",
        "one row times a matrix of weights (columns, inner)",
        ((4096, 4096),),
        _matvec,
        in_float64(_matmul),
        _flops,
        peers=Peers(_torch_matmul, _onnx_matmul, _matmul, weights=1, torch_weight=_as_linear_holds_it),
    ),
    Workload(
        "tall_product",
        "a tall matrix times a wide one (rows, columns, inner)",
        ((4096, 4096, 64),),
        _product(weights=False),
        in_float64(_matmul),
        _flops,
        peers=Peers(_torch_matmul, _onnx_matmul, _matmul),
    ),
    Workload(
        "batch_product",
        "batch matmul (B, rows, columns, inner)",
        ((12, 197, 197, 64),),
        batch_matmul,
        in_float64(_matmul),
        _flops,
        peers=Peers(_torch_matmul, _onnx_matmul, _matmul),
    ),
    Workload(
        "int8_product",
        "int8 matrix times int8 weights, in int32 (rows, columns, inner)",
        ((512, 512, 512), (128, 768, 768)),
        _product("int8", "int32", "int32"),
        lambda arrays, *shape: np.matmul(*arrays, dtype="int32"),
        _flops,
        draw=_int8_drawn,
        peers=Peers(
            lambda torch, *shape: torch._int_mm,
            lambda node, *shape: [node("MatMulInteger", ["x0", "x1"], ["y"])],
            weights=1,
            torch_weight=_as_linear_holds_it,
        ),
    ),
    Workload(
        "bfloat16_product",
        "bfloat16 matrix times bfloat16 weights, summed in float32 (rows, columns, inner)",
        ((512, 512, 512), (128, 768, 768)),
        _product("bfloat16", "float32", "bfloat16"),
        in_float64(_matmul),
        _flops,
        draw=_bfloat16_drawn,
        # ONNX Runtime's processor kernels multiply no bfloat16
        peers=Peers(_torch_matmul, weights=1, torch_weight=_as_linear_holds_it),
    ),
)
