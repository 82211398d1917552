"""Collective communication among workers."""

from .ccl import *
