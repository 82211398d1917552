"""What the stand-in for a driver refuses."""

from __future__ import annotations

import pytest

from runners import RunnerError
from runners.cuda import stand_in


def test_a_setting_that_its_devices_do_not_have_is_refused():
    with (
        pytest.raises(RunnerError, match="no setting 'device'; did you mean 'devices'?"),
        stand_in.used(device=2),
    ):
        pass


def test_what_has_no_kernels_of_a_device_has_no_image(tmp_path):
    with pytest.raises(RunnerError, match="no kernels to keep: .* built for the processor"):
        stand_in.keep_image(None, str(tmp_path))
    assert not list(tmp_path.iterdir())
