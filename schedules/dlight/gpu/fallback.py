"""Fallback: kernels for every function."""

from __future__ import annotations

from .rule import GPUScheduleRule, Nests


class Fallback(GPUScheduleRule):
    """A kernel for each nest, whatever it is; it comes last.

    Of ``for i, j: C[i, j] = f(A[i, j])`` the loops are fused, split and bound to blocks and threads, with vectors where results lie side by
    side. Long reductions of few results are shared by threads, others are computed by a thread each, with the elementwise consumer.
    A nest whose iterations must run in order (scans, sorts) is one thread's.
    """

    def schedule(self, nests: Nests) -> bool:
        return True
