"""Mutators: small changes to the decisions of a trace, for searches that work on traces rather than on decision matrices."""

from ..error import ScheduleError
from .base import Mutator, PyMutator
from .compute_location import MutateComputeLocation
from .parallel import MutateParallel
from .thread_binding import MutateThreadBinding
from .tile_size import MutateTileSize
from .unroll import MutateUnroll


def default_mutators(kind: str = "llvm") -> dict[Mutator, float]:
    """The mutators for a kind of target with the probability of each."""
    if kind.startswith("cuda"):
        return {MutateTileSize(): 0.9, MutateUnroll(): 0.08, MutateThreadBinding(): 0.02}
    if kind not in ("llvm", "cpu", "hexagon"):
        raise ScheduleError(f"there are no mutators for {kind!r}; there are for llvm, cpu, hexagon and cuda")
    return {
        MutateTileSize(): 0.9,
        MutateComputeLocation(): 0.05,
        MutateUnroll(): 0.03,
        MutateParallel(max_jobs_per_core=16): 0.02,
    }


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
