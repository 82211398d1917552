"""Mutators: small changes to the decisions of a trace, for searches that work on traces rather than on decision matrices."""

from .base import Mutator, PyMutator
from .compute_location import MutateComputeLocation
from .default import default_mutators
from .parallel import MutateParallel
from .thread_binding import MutateThreadBinding
from .tile_size import MutateTileSize
from .unroll import MutateUnroll

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
