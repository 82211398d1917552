"""Whether a candidate computes what the unscheduled program computes.

The unscheduled program is computed in float64 once per workload, with an error bound for every element that adds up what each
stage may round (:mod:`.shadow`). A candidate runs on inputs of several kinds (:mod:`.inputs`) in guarded memory (:mod:`.guards`);
each element of its outputs must lie within its bounds (:mod:`.compare`), and nothing else may have changed.
"""

from __future__ import annotations

from .allowance import allowing, rounding_program
from .compare import Bounds
from .facts import KernelFacts, Param, entry, facts_of, params_of
from .guards import pattern
from .inputs import make_value, same_bits
from .kinds import KINDS, Array, Kind
from .races import Iterations, iterations_of
from .reference import Arguments, Case, Reference, compute_reference, undefined
from .store import VERSION, ReferenceStore

__all__ = [
    "KINDS",
    "VERSION",
    "Arguments",
    "Array",
    "Bounds",
    "allowing",
    "rounding_program",
    "Case",
    "Kind",
    "Iterations",
    "KernelFacts",
    "Param",
    "Reference",
    "ReferenceStore",
    "compute_reference",
    "entry",
    "facts_of",
    "iterations_of",
    "make_value",
    "params_of",
    "pattern",
    "same_bits",
    "undefined",
]
