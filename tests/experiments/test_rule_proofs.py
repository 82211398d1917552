"""The command that counts proofs; the proofs themselves are in ``tests/ir/arith/proofs``."""

from __future__ import annotations

from collections import Counter

import pytest

from experiments import rule_proofs


def test_help_proves_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        rule_proofs.main(["--help"])
    assert "python -m experiments.rule_proofs" in capsys.readouterr().out


def test_ctrl_c_tells_what_is_decided(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(claims: list[tuple[str, str]], found: dict[tuple[str, str], Counter[str]]) -> None:
        found[claims[0]] = Counter(proved=3)
        raise KeyboardInterrupt

    monkeypatch.setattr(rule_proofs, "_decide_all", interrupted)
    assert rule_proofs.main([]) == 130
    said = capsys.readouterr().out
    assert "interrupted: 1 of " in said and "3 proofs, 0 enumerated" in said


def test_progress_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    found: dict[tuple[str, str], Counter[str]] = {}
    rule_proofs._decide_all([("bound_deducer", rule_proofs.KINDS[0].name)], found)
    assert len(found) == 1 and "1 of 1 claims" in capsys.readouterr().err
