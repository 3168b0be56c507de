"""The machine's own key: it shows that the machine which joined is the one that comes back."""

import os
from pathlib import Path

from navarch.ports.clock import Entropy

FILE = "machine-key"


def machine_key(folder: Path, entropy: Entropy) -> str:
    """Return the key in `folder`, made the first time; readable by nobody else."""
    file = folder / FILE
    try:
        return file.read_text().strip()
    except FileNotFoundError:
        pass
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    beside = folder / f".{FILE}.{os.getpid()}"
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as writing:
        writing.write(entropy.secret().hex())
        writing.flush()
        os.fsync(writing.fileno())
    try:
        os.link(beside, file)
    except FileExistsError:
        pass  # Another start of the agent was quicker; its key is as good.
    finally:
        beside.unlink()
    return file.read_text().strip()
