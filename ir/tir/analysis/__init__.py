"""Analyses of TIR: what blocks access, which variables are free, whether a function is well-formed, what it costs."""

from ...arith.deep_equal import expr_deep_equal
from .block_access_region import get_block_access_region, get_block_read_write_region
