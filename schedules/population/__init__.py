"""Populations of candidates: decision matrices, and the extents, accesses and validity of all candidates as arrays."""

from .decision import CategoricalDecision, Decision, TileDecision
from .extraction import Extraction, flops_of
from .skeleton import Access, LoopAxis, Nest, Skeleton
from .sketch import Sketch, SketchSchedule
