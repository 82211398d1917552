"""Operators on images."""

from .resize import resize1d, resize2d, resize3d
