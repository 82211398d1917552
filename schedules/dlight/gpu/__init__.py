"""Ready-made schedules for GPUs, one rule for each kind of program."""

from .fallback import Fallback
from .gemv import GEMV
from .general_reduction import GeneralReduction
from .low_batch_gemv import LowBatchGEMV
from .matmul import Matmul
from .reduction import Reduction
from .rms_norm import RMSNorm
from .rule import GPUScheduleRule
from .transpose import Transpose
