"""Fallback: kernels for every function."""

from __future__ import annotations

from .rule import GPUScheduleRule, Nests


class Fallback(GPUScheduleRule):
    """A kernel for each nest, whatever it is; it comes last.

    ``for i, j: C[i, j] = f(A[i, j])`` becomes ``for b (blockIdx.x): for t (threadIdx.x): C[...] = f(A[...])``, with vectors where results lie
    side by side. A thread of its own computes each reduction, and a nest whose iterations must run in order (scans, sorts) is
    one thread's.
    """

    def schedule(self, nests: Nests) -> bool:
        return True
