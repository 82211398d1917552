"""``loopsmith db diff``: what one database has that another has not, and which of both is faster."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from database import Database, TuningRecord, by_speed, open_database
from database.secrets import masked
from ir.time_interval import milliseconds

from ...names import target_text
from ..console import out, print_json
from ..options import JsonOption
from .kernels import Kernel, kernels_of, one_by_one
from .output import Path_, count_of, print_table


@dataclass(frozen=True)
class _Row:
    """A kernel on a target in both databases."""

    kernel: str
    target: str
    first: float | None
    second: float | None
    only_first: int
    only_second: int

    @property
    def ratio(self) -> float | None:
        """How many times as long the second one's best takes."""
        return None if self.first is None or self.second is None else self.second / self.first

    @property
    def is_equal(self) -> bool:
        return not self.only_first and not self.only_second

    def as_json(self) -> dict[str, Any]:
        return {
            "kernel": self.kernel,
            "target": self.target,
            "first_secs": self.first,
            "second_secs": self.second,
            "ratio": self.ratio,
            "only_first": self.only_first,
            "only_second": self.only_second,
        }


def diff(
    first: Path_,
    second: Annotated[str, typer.Argument(help="Path or URL of the other database.")],
    everything: Annotated[bool, typer.Option("--all", help="Kernels without a difference, too.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Compare two databases: by kernel and target the best times of both, and how many records only one of them has.

    A record is the same where it says the same, wherever it is kept; `loopsmith db merge` adds what is missing.

    Example: loopsmith db diff tuning.db yesterday.jsonl
    """
    stores = [open_database(item, must_exist=True) for item in (first, second)]
    rows = list(_rows(*stores))
    shown = rows if everything else [item for item in rows if not item.is_equal]
    if as_json:
        print_json([item.as_json() for item in shown])
        return
    if not shown:
        out.print(f"the same {count_of(len(stores[0]), 'record')} in both")
        return
    print_table(
        f"first: {masked(first)}, second: {masked(second)}",
        ("kernel", "first ms", "second ms", "times as long", "only first", "only second", "target"),
        [
            (
                item.kernel,
                _ms(item.first),
                _ms(item.second),
                "-" if item.ratio is None else f"{item.ratio:.2f}",
                str(item.only_first),
                str(item.only_second),
                item.target,
            )
            for item in shown
        ],
    )


def _ms(secs: float | None) -> str:
    return "-" if secs is None else milliseconds(secs)


def _rows(first: Database, second: Database) -> Iterable[_Row]:
    sides = [{item.workload.shash: item for item in kernels_of(store)} for store in (first, second)]
    for shash in dict.fromkeys([*sides[0], *sides[1]]):
        both = [list(one_by_one([side[shash]])) if shash in side else [] for side in sides]
        name = next(item.name for one in both for item in one)
        yield from _rows_of_kernel(name, [_by_target(one) for one in both])


def _rows_of_kernel(name: str, sides: list[dict[str, list[TuningRecord]]]) -> Iterable[_Row]:
    for key in dict.fromkeys([*sides[0], *sides[1]]):
        records = [side.get(key, []) for side in sides]
        best, other = (next((item.secs for item in by_speed(each)), None) for each in records)
        digests = [{item.digest for item in each} for each in records]
        yield _Row(
            name,
            target_text(next(record.target for each in records for record in each)),
            best,
            other,
            len(digests[0] - digests[1]),
            len(digests[1] - digests[0]),
        )


def _by_target(kernels: list[Kernel]) -> dict[str, list[TuningRecord]]:
    """The records of kernels by the keys of their targets."""
    found: dict[str, list[TuningRecord]] = {}
    for kernel in kernels:
        for record in kernel.records:
            found.setdefault(record.place[1], []).append(record)
    return found
