"""Ready-made schedules for GPUs, one rule for each kind of program."""

from .attention import Attention
from .decode_attention import DecodeAttention
from .fallback import Fallback
from .gemv import GEMV
from .general_reduction import GeneralReduction
from .low_batch_gemv import LowBatchGEMV
from .matmul import Matmul
from .reduction import Reduction
from .rms_norm import RMSNorm
from .row_order import RowOrder
from .rule import GPUScheduleRule
from .scan import Scan
from .transpose import Transpose
from .warp_group_matmul import WarpGroupMatmul
