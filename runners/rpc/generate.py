"""Makes the Python code of the messages: ``python -m runners.rpc.generate``, with grpcio-tools installed.

The generated files are in the repository, so that nobody needs the compiler of protobuf to use them; a test holds them equal to what
this makes.
"""

from __future__ import annotations

import importlib.resources
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
PROTO = HERE / "proto"


def generate(folder: Path) -> list[Path]:
    """Write the code of all ``.proto`` files below a folder, at the same paths as here; the files that were written."""
    from grpc_tools import protoc  # only who changes messages has it

    included = importlib.resources.files("grpc_tools") / "_proto"
    sources = sorted(str(path.relative_to(ROOT)) for path in PROTO.glob("*.proto"))
    options = [f"--{name}_out={folder}" for name in ("python", "pyi", "grpc_python")]
    status = protoc.main(["protoc", f"-I{ROOT}", f"-I{included}", *options, *sources])
    if status:
        raise SystemExit(f"the compiler of protobuf ended with status {status}")
    return sorted((folder / PROTO.relative_to(ROOT)).glob("*_pb2*"))


def main() -> None:
    """Replace the generated files of the repository."""
    with tempfile.TemporaryDirectory() as folder:
        for path in generate(Path(folder)):
            (PROTO / path.name).write_text(path.read_text())
            print(PROTO.relative_to(ROOT) / path.name)


if __name__ == "__main__":
    main()
