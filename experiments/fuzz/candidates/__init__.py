"""Random candidates of design spaces: random kernels (``programs``), the spaces of all targets and of random rules (``spaces``), and what
candidates compute compared with the interpreted kernel (``judge``).
"""

from .judge import ROWS, candidates_of, judge_candidate, judge_candidates, judge_trace
from .spaces import DESCRIBED, Space, space_of, target_names

__all__ = [
    "DESCRIBED",
    "ROWS",
    "Space",
    "candidates_of",
    "judge_candidate",
    "judge_candidates",
    "judge_trace",
    "space_of",
    "target_names",
]
