"""Passes over TIR: one pass a file, named after it."""

from .function_pass import PrimFuncPass, prim_func_pass
