"""Sets of integers: intervals with symbolic ends, their evaluation for expressions, the bounds of regions."""

from .evaluation import eval_set
from .interval_set import (
    IntervalSet,
    IntSet,
    as_int_set,
    everything,
    EVERYTHING,
    from_range,
    intersect,
    interval,
    is_infinite,
    neg_inf,
    nothing,
    NOTHING,
    pos_inf,
    range_of,
    single_point,
    union,
    union_lower_bound,
    vector,
)
from .region_bounds import (
    estimate_region_lower_bound,
    estimate_region_strict_bound,
    estimate_region_upper_bound,
    eval_region,
)
