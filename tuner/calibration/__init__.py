"""A short calibration of this machine, for the analytical model: what is measured, how, and where it is kept."""

from .known import MODES, calibrate, check_mode, describes_host, known_calibration, machine_fingerprint
from .measure import VERSION, measure_calibration
