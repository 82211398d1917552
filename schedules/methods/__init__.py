"""The methods of a schedule by family: each checks its arguments, runs a primitive, and records it."""

from .annotations import AnnotationMethods
from .caching import CachingMethods
from .layouts import LayoutMethods
from .lookup import LookupMethods
from .loops import LoopMethods
from .placement import PlacementMethods
from .reductions import ReductionMethods
from .sampling import SamplingMethods
from .tensors import TensorMethods

__all__ = [
    "AnnotationMethods",
    "CachingMethods",
    "LayoutMethods",
    "LookupMethods",
    "LoopMethods",
    "PlacementMethods",
    "ReductionMethods",
    "SamplingMethods",
    "TensorMethods",
]
