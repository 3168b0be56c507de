"""Effects of agents' commands on simulated machines: resets and reboots."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from navarch.core.errors import NotifierError
from navarch.core.health import CheckResult
from navarch.core.ids import CommandId, NodeId
from navarch.core.recovery import Command, CommandKind, RecoveryStep, rung
from navarch.ports.clock import Clock, Entropy
from navarch.sim.world.agent import SimAgent


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionLogEntry:
    """A logged action on a machine."""

    node: str
    step: RecoveryStep
    boot_id: str
    """The boot during which it was done."""
    recovery: str
    at_s: float


@dataclass(slots=True)
class Fault:
    """A fault that only a certain step clears."""

    result: CheckResult
    cleared_by: RecoveryStep


@dataclass(slots=True)
class SimEffects:
    """One machine's hardware, as its agent controls it. It outlives the agent."""

    boot: Callable[[str], None]
    """Reboots the machine, for a recovery."""
    time_s: Callable[[], float]
    action_log: list[ActionLogEntry]
    """Shared by all machines."""
    faults: list[Fault] = field(default_factory=list)
    done: dict[CommandId, tuple[bool, str]] = field(default_factory=dict)
    """Commands that the agent has recorded, so that none is carried out twice."""
    rebooting: dict[CommandId, str] = field(default_factory=dict)
    """Reboots that were ordered, and during which boot."""
    holders: str = ""
    """The processes that keep a GPU from being reset."""

    async def execute(self, agent: SimAgent, command: Command) -> tuple[bool, str]:
        """Carry out a command as the real agent does: only on the boot it was issued for."""
        if command.id not in self.done:
            self.done[command.id] = await self._execute(agent, command)
        return self.done[command.id]

    async def _execute(self, agent: SimAgent, command: Command) -> tuple[bool, str]:
        step = _STEPS.get(command.kind)
        if step is None:
            return True, "done"
        meant = command.parameters.get("boot_id", "")
        if step is RecoveryStep.REBOOT and command.id in self.rebooting:
            return True, f"rebooted: was {self.rebooting[command.id]}, is {agent.boot_id}"
        if meant != agent.boot_id:
            return False, f"the order is for boot {meant}, this is {agent.boot_id}"
        if step is RecoveryStep.RESET_GPU and self.holders:
            return False, f"in use by {self.holders}"
        recovery = command.parameters.get("recovery", "")
        self.note(agent.node, step, agent.boot_id, recovery)
        if step is RecoveryStep.REBOOT:
            self.rebooting[command.id] = agent.boot_id
            self.boot(recovery)
            await agent.clock.sleep(3600.0)  # The agent ends with this boot.
        self.clear(step)
        agent.results = {r.check: r for r in agent.results.values() if not r.lasting}
        for fault in self.faults:
            agent.results[fault.result.check] = fault.result
        if self.faults:
            return False, "after it: " + "; ".join(f.result.reason for f in self.faults)
        return True, "done, and every check passes"

    def note(self, node: str, step: RecoveryStep, boot_id: str, recovery: str) -> None:
        """Log an action on the machine."""
        self.action_log.append(
            ActionLogEntry(
                node=node, step=step, boot_id=boot_id, recovery=recovery, at_s=self.time_s()
            )
        )

    def clear(self, step: RecoveryStep) -> None:
        """Drop the faults that `step` clears."""
        self.faults = [fault for fault in self.faults if rung(fault.cleared_by) > rung(step)]


_STEPS = {
    CommandKind.RESTART_APP: RecoveryStep.RESTART_APP,
    CommandKind.RESET_GPU: RecoveryStep.RESET_GPU,
    CommandKind.REBOOT: RecoveryStep.REBOOT,
}


@dataclass(slots=True)
class SimWorkloads:
    """Records every call, and drains each node after a random time."""

    clock: Clock
    entropy: Entropy
    error_rate: float = 0.0
    drain_s: tuple[float, float] = (0.0, 120.0)
    name: str = "sim-workloads"
    cordoned: dict[NodeId, str] = field(default_factory=dict)
    empty_at: dict[NodeId, datetime] = field(default_factory=dict)
    calls: list[tuple[str, NodeId]] = field(default_factory=list)

    async def cordon(self, node: NodeId, reason: str) -> None:
        """Start nothing new on `node`."""
        await self._call("cordon", node)
        self.cordoned[node] = reason

    async def uncordon(self, node: NodeId) -> None:
        """Start work on `node` again."""
        await self._call("uncordon", node)
        self.cordoned.pop(node, None)
        self.empty_at.pop(node, None)

    async def drain(self, node: NodeId, reason: str) -> None:
        """Move the work on `node` elsewhere."""
        await self._call("drain", node)
        self.cordoned[node] = reason
        pause = timedelta(seconds=self.entropy.uniform(*self.drain_s))
        self.empty_at.setdefault(node, self.clock.now() + pause)

    async def is_drained(self, node: NodeId) -> bool:
        """Return whether nothing runs on `node`."""
        await self._call("is_drained", node)
        empty_at = self.empty_at.get(node)
        return empty_at is not None and empty_at <= self.clock.now()

    async def _call(self, what: str, node: NodeId) -> None:
        await self.clock.sleep(self.entropy.uniform(0.01, 0.5))
        if self.entropy.uniform(0, 1) < self.error_rate:
            raise NotifierError("the workload system is busy")
        self.calls.append((what, node))
