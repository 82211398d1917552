"""Questions about Relax programs: well-formedness, variables, bindings, struct infos, purity, recursion, patterns."""

from .binding import (
    all_global_vars,
    all_vars,
    bound_vars,
    called_global_vars,
    free_vars,
    get_var2val,
    name_to_binding,
    post_order_visit,
    udchain,
    used_vars,
)
from .binding import all_bindings
from .compile_time import computable_at_compile_time
from .purity import contains_impure_call, detect_recursion, find_impure_call
from ..struct_info_lattice import (
    BaseCheckResult,
    can_prove_shape_equal,
    derive_call_ret_struct_info,
    erase_to_well_defined,
    get_static_type,
    prove_dim_equal,
    struct_info_base_check,
    struct_info_lca,
)
from ..symbolic_vars import (
    collect_non_negative_expressions,
    definable_tir_vars_in_struct_info,
    defined_symbolic_vars,
    free_symbolic_vars,
    tir_vars_in_struct_info,
)
from .tir_op_pattern import estimate_memory_usage, has_reshape_pattern, suggest_layout_transforms
from .well_formed import WellFormedError, check_well_formed, well_formed

LAZY = {"remove_all_unused": ".remove_unused", "get_op_pattern": "..transform.annotate_tir_op_pattern"}


def __getattr__(name: str) -> object:
    """What lives above the analyses themselves, as ``remove_all_unused`` does, which rewrites, is found on first use."""
    if name in LAZY:
        from importlib import import_module

        return getattr(import_module(LAZY[name], __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
