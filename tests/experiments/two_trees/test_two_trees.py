"""The comparison of two trees, with this one as both."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from experiments.two_trees.__main__ import main

HERE = Path(__file__).resolve().parents[3]


def test_candidates_of_both_searches_are_timed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--trials", "2", "--best", "1", "--rounds", "1", "--threads", "1", "--scratch", str(tmp_path)]
    assert main([str(HERE), "GMM:1,16,16,16", *options]) == 0
    here, there, mean = capsys.readouterr().out.splitlines()
    pattern = r"GMM 1x16x16x16 {} 1: \d+\.\d{{3}}\*? \(\d+\.\d{{3}}\)"
    assert re.fullmatch(pattern.format("here"), here)
    assert re.fullmatch(pattern.format("there"), there)
    assert re.fullmatch(r"2 candidates: geometric mean \d+\.\d{3} of the time there", mean)


def test_what_is_no_checkout_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main([str(tmp_path), "GMM"])
    assert "is no checkout of this repository" in capsys.readouterr().err
