"""Reports of tuning databases: one page with curves, failures, noise, phases, roofline and programs, as a file or live."""

from .numbers import DatabaseReader, Report
from .page import page_of, report_of, write_report
