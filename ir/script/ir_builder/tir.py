"""The namespace ``T`` for building: that of scripts, where ``T.prim_func()`` opens a function instead of reading one.

>>> from ir.script.ir_builder import IRBuilder, tir as T
>>> with IRBuilder() as ib:
...     with T.prim_func():
...         T.func_name("main")
...         n = T.arg("n", T.int32())
...         T.evaluate(n + 1)
>>> ib.get().attrs["global_symbol"]
'main'
"""

from __future__ import annotations

from typing import Any

from .. import tir as scripts
from .tir_functions import prim_func

__all__ = ["prim_func"]


def __getattr__(name: str) -> Any:
    """Everything else is the namespace of scripts."""
    return getattr(scripts, name)
