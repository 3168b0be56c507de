"""What the loops of one agent share."""

from dataclasses import dataclass

from navarch.agent.connection import ConnectionState
from navarch.agent.probe import Probe
from navarch.agent.settings import Identity, Timing
from navarch.agent.signals import Signals
from navarch.agent.spool import Spool
from navarch.agent.spool.disk import Disk
from navarch.ports.clock import Clock, Entropy
from navarch.ports.gpu import GpuReader
from navarch.ports.host import Host
from navarch.ports.link import Link
from navarch.ports.offload import Offload


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class AgentContext:
    """The machine, the control plane and the state of one running agent."""

    clock: Clock
    entropy: Entropy
    link: Link
    gpus: GpuReader
    host: Host
    disk: Disk
    offload: Offload
    """Runs disk calls, one at a time."""
    probe: Probe
    identity: Identity
    timing: Timing
    boot_id: str
    connection: ConnectionState
    signals: Signals
    spool: Spool
