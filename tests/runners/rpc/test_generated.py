"""The generated code of the messages is what the compiler of protobuf makes of the files beside it."""

from __future__ import annotations

from pathlib import Path

import pytest

from runners.rpc.generate import PROTO, generate

pytest.importorskip("grpc_tools")


def test_generated_files_are_those_of_the_messages(tmp_path: Path) -> None:
    made = generate(tmp_path)
    assert {path.name for path in made} == {path.name for path in PROTO.glob("*_pb2*") if path.is_file()}
    for path in made:
        assert path.read_text() == (PROTO / path.name).read_text(), (
            f"{path.name} is not what the messages say: python -m runners.rpc.generate"
        )
