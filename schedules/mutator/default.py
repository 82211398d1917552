"""The sets of mutators that are named after kinds of targets, and how often each is tried.

A space generator that names one (``mutator_probs="llvm"``) has its mutants made by it; one that names none lets any decision change.
"""

from __future__ import annotations

from .base import Mutator
from .compute_location import MutateComputeLocation
from .parallel import MutateParallel
from .thread_binding import MutateThreadBinding
from .tile_size import MutateTileSize
from .unroll import MutateUnroll


def default_mutators(kind: str = "llvm") -> dict[Mutator, float]:
    """The mutators for a kind of target with the probability of each."""
    return Mutator.defaults[kind]()


@Mutator.defaults.register("llvm", "cpu", "hexagon")
def cpu_mutators() -> dict[Mutator, float]:
    """The mutators for CPUs."""
    return {
        MutateTileSize(): 0.9,
        MutateComputeLocation(): 0.05,
        MutateUnroll(): 0.03,
        MutateParallel(max_jobs_per_core=16): 0.02,
    }


@Mutator.defaults.register("cuda", "cuda-tensorcore")
def gpu_mutators() -> dict[Mutator, float]:
    """The mutators for GPUs."""
    return {MutateTileSize(): 0.9, MutateUnroll(): 0.08, MutateThreadBinding(): 0.02}
