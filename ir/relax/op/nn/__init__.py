"""Operators of neural networks."""

from .activation import *
from .attention import *
from .conv import *
from .conv_transpose import *
from .loss import *
from .normalization import *
from .pooling import *
from .shaping import *
