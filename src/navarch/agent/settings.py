"""Who an agent is."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

from navarch.core.ids import NodeId, Token
from navarch.core.machine import MachineKind
from navarch.core.offering import Offering
from navarch.ports.clock import Entropy


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """What an agent was told about itself and its machine."""

    node: NodeId
    token: Token | None = None
    """Proof of the launch that made the machine."""
    boot_id: str = ""
    """Where it is empty, the operating system is asked."""
    place: Offering | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    external_ip: str = ""
    image: str = ""
    """What the machine was booted from."""
    gpus_expected: int | None = None
    kind: MachineKind | None = None
    """What the catalogue says of such machines."""


MACHINE_KEY_FILE = "machine-key"


def machine_key(folder: Path, entropy: Entropy) -> str:
    """Return the key in `folder`, made the first time; readable by nobody else."""
    file = folder / MACHINE_KEY_FILE
    try:
        return file.read_text().strip()
    except FileNotFoundError:
        pass
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    draft = folder / f".{MACHINE_KEY_FILE}.{os.getpid()}"
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as writing:
        writing.write(entropy.secret().hex())
        writing.flush()
        os.fsync(writing.fileno())
    try:
        os.link(draft, file)
    except FileExistsError:
        pass  # Another start of the agent was quicker; its key is as good.
    finally:
        draft.unlink()
    return file.read_text().strip()


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """Intervals and limits. The control plane's wishes replace the two intervals."""

    heartbeat: timedelta = timedelta(seconds=30)
    health_check: timedelta = timedelta(seconds=60)
    metrics_s: float = 2.0
    """How long a heartbeat waits for readings before it goes without them."""
    inventory_s: float = 5.0
    """How long an introduction waits for the list of GPUs. A machine that comes up without one is
    introduced again as soon as its driver has answered; one that does not come up is given up."""
    first_report_s: float = 2.0
    """For how long after the start an introduction waits for the first round of checks, so that
    both go in one message. A round that takes longer is told of when it is over."""
    check_s: float = 30.0
    """How long a check may take before the driver counts as hung."""
    stop_s: float = 8.0
    """How long a stop may take."""
