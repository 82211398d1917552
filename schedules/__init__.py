"""Schedules: primitives that transform programs, traces that record them, and the design spaces that searches explore."""

from loopsmith_import_check import require_needs

require_needs(__name__, __file__)

from .error import RuleError, ScheduleError, TraceError
from .instruction import Instruction, InstructionKind
from .random_variable import BlockRV, ExprRV, LoopRV
from .schedule import Schedule
from .trace import Trace
