"""Schedule rules: each offers, for a block, the ways in which it can be restructured."""

from .add_rfactor import AddRFactor
from .auto_inline import AutoInline
from .base import PyScheduleRule, ScheduleRule
from .compute_location import RandomComputeLocation
from .multi_level_tiling import MultiLevelTiling
from .parallel_vectorize_unroll import ParallelizeVectorizeUnroll


def default_rules(target: object) -> list[ScheduleRule]:
    """The rules for a CPU, in the order in which they apply."""
    return [
        AutoInline(disallow_op=["tir.exp", "tir.erf", "tir.tanh", "tir.pow", "tir.log", "tir.sigmoid"]),
        AddRFactor(),
        MultiLevelTiling(),
        RandomComputeLocation(),
        ParallelizeVectorizeUnroll(),
    ]
