"""Mutators: small changes to the decisions of a trace, for searches that work on traces rather than on decision matrices."""

from .base import Mutator, PyMutator
from .compute_location import MutateComputeLocation
from .parallel import MutateParallel
from .thread_binding import MutateThreadBinding
from .tile_size import MutateTileSize
from .unroll import MutateUnroll


def default_mutators(kind: str = "llvm") -> dict[Mutator, float]:
    """The mutators for a kind of target with the probability of each."""
    mutators: dict[Mutator, float] = {
        MutateTileSize(): 0.9,
        MutateComputeLocation(): 0.05,
        MutateUnroll(): 0.03,
        MutateParallel(): 0.02,
    }
    if kind.startswith("cuda"):
        mutators[MutateThreadBinding()] = 0.1
    return mutators


__all__ = [
    "MutateComputeLocation",
    "MutateParallel",
    "MutateThreadBinding",
    "MutateTileSize",
    "MutateUnroll",
    "Mutator",
    "PyMutator",
    "default_mutators",
]
