"""The simulated fleet: every session is counted, and every record is kept."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("grpc")

from experiments.fleet import many


def test_a_small_fleet_serves_all_its_clients(tmp_path: Path) -> None:
    found = many.run(5, 8, 1.5, str(tmp_path / "records.db"))
    assert (found.servers, found.clients, found.database) == (5, 8, "SQLite")
    assert found.records == found.sessions >= 8
    assert 0 < found.sessions_per_sec <= 5 / many._HELD_SECS  # as many as devices can have
    assert 1 / 8 <= found.fairness <= 1 and 0 < found.asked_secs[0] <= found.asked_secs[1]
    assert 0 < found.stored_secs[0] <= found.stored_secs[1]


def test_the_page_has_a_line_for_each_fleet(tmp_path: Path) -> None:
    figures = many.Figures(500, 50, "", 1.0, 100, 10.0, 0.5, (0.1, 0.2), (0.0, 0.0), 0, 0, 99.0, 0.25)
    asked: list[tuple[int, int, bool]] = []

    def each(servers: int, clients: int, secs: float, database: str | None) -> many.Figures:
        asked.append((servers, clients, database is not None))
        return figures

    text = many.page(many.series(2.0, each), 2.0)
    assert asked == list(many._SERIES)
    assert text.count("\n| 500 ") == len(many._SERIES) and "none" in text and "25%" in text
    lost = many.Figures(1, 1, "SQLite", 1.0, 100, 10.0, 1.0, (0.1, 0.2), (0.1, 0.2), 98, 0, 99.0, 0.25)
    assert lost.cells()[many._HEADER.index("records lost")] == "2"


@pytest.mark.parametrize(("counts", "index"), [([3, 3, 3], 1.0), ([6, 0, 0], 1 / 3)])
def test_fairness_is_jains_index(counts: list[int], index: float) -> None:
    assert many._fairness(counts) == pytest.approx(index)
