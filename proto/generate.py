"""Write the Python side of the protocols: `python proto/generate.py` after a change to a .proto."""

import re
import tempfile
from pathlib import Path

from grpc_tools import protoc

HERE = Path(__file__).parent
TARGET = HERE.parent / "src" / "navarch" / "wire"
FILES = {
    "navarch/navarch.proto": "reference",
    "navarch/v1/agent.proto": "v1",
    "navarch/v1/fleet.proto": "v1",
    "navarch/v1/heartbeat_wire.proto": "v1",
}


def main() -> None:
    """Run protoc, then move each module to where our packages are."""
    with tempfile.TemporaryDirectory() as scratch:
        status = protoc.main(
            [
                "protoc",
                f"-I{HERE}",
                f"-I{Path(protoc.__file__).parent / '_proto'}",
                f"--python_out={scratch}",
                f"--pyi_out={scratch}",
                *FILES,
            ]
        )
        if status != 0:
            raise SystemExit(status)
        for file, package in FILES.items():
            for suffix in ("_pb2.py", "_pb2.pyi"):
                made = Path(scratch, file.removesuffix(".proto") + suffix)
                # protoc names modules after the files' paths, which ours do not follow.
                text = re.sub(
                    r"^from navarch\.v1 import",
                    "from navarch.wire.v1 import",
                    made.read_text(),
                    flags=re.MULTILINE,
                )
                (TARGET / package / made.name).write_text(text)


if __name__ == "__main__":
    main()
