"""The command that counts proofs; the proofs themselves are in ``tests/ir/arith/proofs``."""

from __future__ import annotations

import pytest

from experiments import rule_proofs


def test_help_proves_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        rule_proofs.main(["--help"])
    assert "python -m experiments.rule_proofs" in capsys.readouterr().out
