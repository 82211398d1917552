"""Schedule rules: each offers, for a block, the ways in which it can be restructured."""

from .add_rfactor import AddRFactor
from .auto_inline import AutoInline
from .base import PyScheduleRule, ScheduleRule
from .compute_location import RandomComputeLocation
from .custom import ApplyCustomRule, FunctionRule
from .inline_constant_scalars import InlineConstantScalars
from .multi_level_tiling import MultiLevelTiling
from .parallel_vectorize_unroll import ParallelizeVectorizeUnroll
from .tensorize import MultiLevelTilingWithIntrin


def default_rules(target: object) -> list[ScheduleRule]:
    """The rules for a CPU, in the order in which they apply."""
    return [
        ApplyCustomRule(),
        InlineConstantScalars(),
        AutoInline(disallow_op=["tir.exp", "tir.erf", "tir.tanh", "tir.pow", "tir.log", "tir.sigmoid"]),
        AddRFactor(),
        MultiLevelTiling(),
        RandomComputeLocation(),
        ParallelizeVectorizeUnroll(),
    ]


__all__ = [
    "AddRFactor",
    "ApplyCustomRule",
    "AutoInline",
    "FunctionRule",
    "InlineConstantScalars",
    "MultiLevelTiling",
    "MultiLevelTilingWithIntrin",
    "ParallelizeVectorizeUnroll",
    "PyScheduleRule",
    "RandomComputeLocation",
    "ScheduleRule",
    "default_rules",
]
