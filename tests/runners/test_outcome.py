"""How calls and their processes end."""

from __future__ import annotations

import os
import signal
import tempfile

from runners.cuda.driver import CudaContextLost
from runners.outcome import CONTEXT_LOST, ending, last_output


def test_the_error_after_which_a_process_is_replaced_is_the_drivers() -> None:
    assert CONTEXT_LOST == CudaContextLost.__name__


def test_an_ending_names_the_signal_or_the_status() -> None:
    assert ending(signal.SIGSEGV, "in the test") == (
        "SIGSEGV",
        "the process was ended by SIGSEGV in the test",
    )
    assert ending(3 << 8, "in the test") == ("exit", "the process ended with status 3 in the test")


def test_of_long_output_the_end_is_told() -> None:
    with tempfile.TemporaryFile() as log:
        os.write(log.fileno(), b"begin\xff" + b"x" * 5000 + b" end\n")
        assert last_output(log).endswith("x end")
        assert "begin" not in last_output(log)
