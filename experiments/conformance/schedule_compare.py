"""Every schedule primitive here and in a black box, side by side: prints where the resulting programs differ.

The corpus is ``schedule_programs.py`` and ``schedule_cases.py``; each system runs ``schedule_side.py`` in an interpreter of its own.

    python experiments/conformance/schedule_compare.py --peer PYTHON [--only WORD] [--trace]
"""

from __future__ import annotations

import argparse
import difflib
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1])]

from schedule_cases import cases  # noqa: E402  (a sibling, which takes programs from the tests: both are found through the line above)


def run_side(python: str, system: str, chosen: list[dict[str, Any]], folder: Path) -> list[dict[str, Any]]:
    """The results of one system."""
    source, target = folder / "cases.json", folder / f"{system}.json"
    source.write_text(json.dumps(chosen))
    done = subprocess.run(
        [python, str(HERE / "schedule_side.py"), system, str(source), str(target)],
        cwd=folder,
        env={"PYTHONPATH": os.environ.get("PYTHONPATH", str(HERE.parent.parent))} if system == "ours" else {},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"{system}: {done.stderr[-3000:]}")
    results: list[dict[str, Any]] = json.loads(target.read_text())
    return results


def cached(
    python: str, chosen: list[dict[str, Any]], folder: Path, store: Path | None
) -> list[dict[str, Any]]:
    """The peer's results, those of earlier calls from ``store``."""
    known = json.loads(store.read_text()) if store and store.exists() else {}
    keys = [f"{case['program']}|{case['steps']}" for case in chosen]
    missing = [case for key, case in zip(keys, chosen, strict=True) if key not in known]
    if missing:
        results = run_side(python, "tvm", missing, folder)
        known |= {
            f"{case['program']}|{case['steps']}": item for case, item in zip(missing, results, strict=True)
        }
        if store:
            store.write_text(json.dumps(known))
    return [known[key] for key in keys]


def differences(a: dict[str, Any], b: dict[str, Any], with_trace: bool) -> list[str]:
    """Lines that tell how our result ``a`` differs from the peer's ``b``."""
    found = []
    if bool(a.get("error")) != bool(b.get("error")) or a.get("parse") or b.get("parse"):
        for name, side in (("ours", a), ("peer", b)):
            problem = side.get("parse") or side.get("error")
            text = "accepts" if not problem else f"{problem}: {side.get('message', '')}"
            found.append(f"  {name}: {text[:400]}")
    if a.get("dump"):
        found.append(f"  ours cannot be read: {a['dump']}")
    for key in ("program", "out", *(["trace"] if with_trace else [])):
        left, right = a.get(key), b.get(key)
        if left == right:
            continue
        if isinstance(left, list) and isinstance(right, list):
            lines = difflib.unified_diff(
                [str(x) for x in left], [str(x) for x in right], "ours", "peer", lineterm="", n=2
            )
            found += [f"  {line}" for line in lines if not line.startswith(("---", "+++"))]
        else:
            found.append(f"  {key}: ours {left} peer {right}")
    return found


def main() -> None:
    """See the module's docstring."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--peer", required=True, help="the interpreter that has the black box")
    parser.add_argument("--cache", type=Path, help="a file that keeps the peer's results")
    parser.add_argument("--only", default="", help="cases whose name contains this")
    parser.add_argument("--trace", action="store_true", help="compare traces as Python too")
    parser.add_argument("--show", action="store_true", help="print our programs")
    args = parser.parse_args()
    chosen = [case for case in cases() if args.only in case["name"]]
    with tempfile.TemporaryDirectory() as folder:
        mine = run_side(sys.executable, "ours", chosen, Path(folder))
        peer = cached(args.peer, chosen, Path(folder), args.cache)
    different = 0
    for case, a, b in zip(chosen, mine, peer, strict=True):
        lines = differences(a, b, args.trace)
        if lines:
            different += 1
            print(f"== {case['name']}: {case['steps']}")
            print("\n".join(lines))
        elif args.show:
            print(f"== {case['name']}: {case['steps']} -- same, error {a.get('message', '')[:200]!r}")
    print(f"{len(chosen)} cases, {different} differ")


if __name__ == "__main__":
    main()
