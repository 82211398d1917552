"""Products for warp groups: scheduled by hand, with the values that they are given."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ir import dtype as dt
from ir import te, tir
from ir.tir.tensor_intrin.warp_group_product import WarpGroupProduct
from schedules import Schedule


@dataclass(frozen=True)
class Product:
    """``C = A @ B``, or ``A @ B.T``."""

    m: int
    n: int
    k: int
    operand: str
    total: str
    is_transposed: bool = True

    @property
    def dtype(self) -> str:
        return "float32" if self.operand == "tf32" else self.operand

    def function(self) -> tir.PrimFunc:
        a = te.placeholder((self.m, self.k), self.dtype, name="A")
        b = te.placeholder(self.right_shape, self.dtype, name="B")
        k = te.reduce_axis((0, self.k), name="k")

        def factor(value: tir.PrimExpr) -> tir.PrimExpr:
            return tir.round_to_tf32(value) if self.operand == "tf32" else value.astype(self.total)

        def at(i: tir.PrimExpr, j: tir.PrimExpr) -> tir.PrimExpr:
            right = b[j, k] if self.is_transposed else b[k, j]
            return te.sum(factor(a[i, k]) * factor(right), axis=k)

        return te.create_prim_func([a, b, te.compute((self.m, self.n), at, name="C")])

    @property
    def right_shape(self) -> tuple[int, int]:
        return (self.n, self.k) if self.is_transposed else (self.k, self.n)

    def values(self, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
        """Operands."""
        rng = np.random.default_rng(seed)
        shapes = ((self.m, self.k), self.right_shape)
        if dt.is_integral(self.dtype):
            info = np.iinfo(self.dtype)
            return tuple(
                rng.integers(info.min, info.max, shape, endpoint=True).astype(self.dtype) for shape in shapes
            )  # type: ignore[return-value]
        found = [rng.standard_normal(shape).astype(dt.to_numpy(self.dtype)) for shape in shapes]
        return found[0], found[1]

    def expected(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        """By numpy, in int64 or float64."""
        wide = np.int64 if dt.is_integral(self.dtype) else np.float64
        if self.operand == "tf32":  # to nearest, ties away from zero
            a, b = (
                ((item.view(np.uint32) + 0x1000) & np.uint32(0xFFFFE000)).view(np.float32) for item in (a, b)
            )
        right = b.astype(wide)
        return a.astype(wide) @ (right.T if self.is_transposed else right)


def scheduled(of: Product, m: int, n: int, stages: int, scope: str = "global") -> Schedule:
    """A schedule with tiles of m by n, whose sums go to a scope first."""
    sch = Schedule(of.function())
    block = sch.get_block("C")
    i, j, k = sch.get_loops(block)
    i, i_in = sch.split(i, [None, m])
    j, j_in = sch.split(j, [None, n])
    sch.reorder(i, j, i_in, j_in, k)
    sch.bind(i, "blockIdx.y")
    sch.bind(j, "blockIdx.x")
    if scope != "global":
        copy = sch.cache_write(block, 0, scope)
        sch.reverse_compute_at(copy, j)
        fused = sch.fuse(*sch.get_loops(copy)[2:])
        _, y, x, lanes = sch.split(fused, [None, m // 64, 128, 4])
        sch.bind(y, "threadIdx.y")
        sch.bind(x, "threadIdx.x")
        sch.vectorize(lanes)
    sch.tensorize(
        i_in, WarpGroupProduct(m, n, of.k, of.operand, of.total, of.is_transposed, scope, stages).name
    )
    return sch
