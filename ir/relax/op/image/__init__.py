"""Operators on images."""

from .resize import resize2d
