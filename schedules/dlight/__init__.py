"""Schedules without tuning: a sensible program for a kernel that no record covers."""

from . import cpu, gpu
from .apply_default_schedule import ApplyDefaultSchedule
from .base import ScheduleRule
from .default_gpu_schedule import DefaultGPUSchedule
from .default import default_schedule, gpu_rules
