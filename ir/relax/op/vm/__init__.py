"""Operators of the virtual machine, after lowering."""

from .vm import *
