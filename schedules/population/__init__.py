"""Populations of candidates: decision matrices, and the extents, accesses and validity of all candidates as arrays."""

from .decision import CategoricalDecision, Decision, TileDecision
from .skeleton import Access, Extraction, LoopAxis, Nest, Skeleton, flops_of
from .sketch import Sketch, SketchSchedule
