"""Arithmetic on integer expressions: simplification, bounds, sets of values, affine maps of iterations, equations."""

from .analyzer import Analyzer, ProofStrength
from .const_int_bound import ConstIntBound
from .deep_equal import expr_deep_equal
from .modular_set import ModularSet
