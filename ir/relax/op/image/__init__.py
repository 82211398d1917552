"""Operators on images."""

from .resize import *
