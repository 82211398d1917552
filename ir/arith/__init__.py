"""Arithmetic on integer expressions: simplification, bounds, sets of values, affine maps of iterations, equations."""

from . import int_set
from .analyzer import Analyzer, ProofStrength
from .bound_deducer import deduce_bound
from .common_subexpr import detect_common_subexpr
from .comparison import CompareResult, Extension
from .const_int_bound import ConstIntBound
from .deep_equal import expr_deep_equal
from .domain_touched import domain_touched
from .int_set import (
    IntervalSet,
    IntSet,
    estimate_region_lower_bound,
    estimate_region_strict_bound,
    estimate_region_upper_bound,
    neg_inf,
    pos_inf,
)
from .iter_affine_map import detect_iter_map, iter_map_simplify, normalize_to_iter_sum
from .iter_map_divide import subspace_divide
from .iter_map_expr import (
    IterMapError,
    IterMapExpr,
    IterMapLevel,
    IterMapResult,
    IterMark,
    IterSplitExpr,
    IterSumExpr,
    normalize_iter_map_to_expr,
)
from .iter_map_inverse import inverse_affine_iter_map, invert_index_map
from .linear_equations import (
    IntConstraints,
    IntConstraintsTransform,
    IntGroupBounds,
    detect_clip_bound,
    detect_linear_equation,
    solve_linear_equations,
    solve_linear_inequalities,
)
from .modular_set import ModularSet
