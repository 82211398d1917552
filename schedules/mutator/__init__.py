"""Mutators: small changes to the decisions of a trace, for searches that work on traces rather than on decision matrices."""

from typing import TYPE_CHECKING

from ir.package_door import by_file_name

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

if (
    not TYPE_CHECKING
):  # what is put into this folder is found in the file of its name; type checkers see what is listed
    __getattr__ = by_file_name(__name__)
