"""Analyses of TIR: what blocks access, which variables are free, whether a function is well-formed, what it costs."""

from ...arith.deep_equal import expr_deep_equal
from .anchor_block import find_anchor_block
from .block_access_region import get_block_access_region, get_block_read_write_region
from .buffer_access_lca import detect_buffer_access_lca
from .flops import estimate_tir_flops
from .oob_checker import OOBChecker, OutOfBoundsError
from .purity import assert_pure_function, is_pure_function
from .undefined_vars import undefined_vars
from .verify_device import gpu_code_problems, verify_gpu_code, verify_memory
from .verify_ssa import verify_ssa
from .verify_well_formed import WellFormedError, assert_well_formed, verify_well_formed
from .workspace import calculate_allocated_bytes, calculate_constant_bytes, calculate_workspace_bytes
