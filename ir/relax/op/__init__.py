"""The operators of Relax; one declaration each, grouped by family.

A family in a file of its own is found by the ``__all__`` of that file; the lines here show it to editors and type checkers.
"""

import sys

from ...package_door import take_lists as _take_lists
from .. import expr
from .base import *
from .binary import *
from .declaration import OPERATORS, MixedPrecisionPolicy, OperatorDeclaration, OpPatternKind, operator
from .unary import *
from . import nn
from .create import *
from .datatype import *
from .gather import *
from .index import *
from .linear_algebra import *
from .joining import *
from .manipulate import *
from .reshaping import *
from .search import *
from .sorting import *
from .statistical import *
from . import builtin, ccl, distributed, grad, image, inspect, memory, vm
from . import distributed as dist
from .mask import *
from .qdq import *
from .sampling import *
from .set import *
from .ternary import *

_take_lists(__name__)
expr.operators = sys.modules[__name__]
