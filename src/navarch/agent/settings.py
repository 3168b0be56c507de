"""What an agent is configured with: the machine's identity, its key, and the agent's timing."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

from navarch.core.ids import NodeId, Token
from navarch.core.instance import MachineKind
from navarch.core.launch import Offering
from navarch.ports.clock import Entropy

MACHINE_KEY_FILE = "machine-key"


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """The configured facts about the machine."""

    node: NodeId
    token: Token | None = None
    """The launch token from the machine's user data."""
    boot_id: str = ""
    """Read from the kernel if empty."""
    place: Offering | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    external_ip: str = ""
    image: str = ""
    """The image the machine booted from."""
    gpus_expected: int | None = None
    kind: MachineKind | None = None
    """The catalogue's entry for this instance type."""


def machine_key(folder: Path, entropy: Entropy) -> str:
    """Return the machine's own key, created in `folder` on first use, readable by its owner only.

    The key proves that a machine that reconnects is the machine that joined.
    """
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
        pass  # A concurrent start created the key first; use that one.
    finally:
        draft.unlink()
    return file.read_text().strip()


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """Intervals and timeouts. The control plane can override the two intervals at registration."""

    heartbeat: timedelta = timedelta(seconds=30)
    health_check: timedelta = timedelta(seconds=60)
    metrics_s: float = 2.0
    """How long a heartbeat waits for metrics before it is sent without them."""
    inventory_s: float = 5.0
    """How long a registration waits for the list of GPUs. A machine that registers without GPUs
    registers again as soon as its driver responds."""
    first_report_s: float = 2.0
    """How long after the start a registration waits for the first round of checks, so that one
    message carries both. A slower round is reported when it completes."""
    check_s: float = 30.0
    """How long a check may take before the driver counts as hung."""
    stop_s: float = 8.0
    """How long a stop may take."""
