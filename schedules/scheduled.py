"""What a function of a module is when it has got a schedule: marked, with its own name and attributes, and what the schedule rests on."""

from __future__ import annotations

from ir.tir import PrimFunc

from .aliasing import NO_ALIAS

IS_SCHEDULED = "tir.is_scheduled"
"""Marks functions that passes leave alone."""


def in_place_of(func: PrimFunc, scheduled: PrimFunc) -> PrimFunc:
    """A scheduled function with the name and the attributes of the one that it stands for.

    That its parameters are different memory, which the schedule rests on (:mod:`schedules.aliasing`), is still said.
    """
    rests_on = {NO_ALIAS: scheduled.attrs[NO_ALIAS]} if NO_ALIAS in scheduled.attrs else {}
    found: PrimFunc = scheduled.with_attrs({**rests_on, **func.attrs.dict, IS_SCHEDULED: True})
    return found
