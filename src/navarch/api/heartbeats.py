"""Heartbeats: liveness at once, readings in batches. Every encoding ends here."""

from collections.abc import Sequence
from typing import Protocol, TypeVar

import msgspec
import numpy as np
import numpy.typing as npt

from navarch.core.errors import InvalidError, NotFoundError
from navarch.core.ids import NodeId
from navarch.core.limits import GPUS_PER_HEARTBEAT
from navarch.core.recovery import Command
from navarch.ports.agents import AgentApi
from navarch.ports.clock import Clock
from navarch.ports.metrics import Metrics, NoMetrics
from navarch.wire.v1.agent_pb2 import AgentCommand, HeartbeatResponse

Floats = npt.NDArray[np.float32]
Real = TypeVar("Real", np.float32, np.float64)

TICK_S = 0.1
"""The longest delay before a reading is written to the table."""
DELAY_BUCKETS_S = (0.001, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0)
BATCH_MAX = 4096
GPUS_MAX = GPUS_PER_HEARTBEAT.most
"""More than any machine has; a bound on what one heartbeat may claim."""
READINGS = 4
READING_MAX = 2.0**53
"""A larger reading is no usable number, and is dropped like NaN."""
_MIB = np.float32(2**20)


class Heartbeat(msgspec.Struct, frozen=True, gc=False):
    """A heartbeat, whatever its encoding was."""

    node: NodeId
    """As the sender names it: its node, or its machine at the provider."""
    host: tuple[float, float] = (0.0, 0.0)
    """CPU and memory use, in percent."""
    readings: bytes | None = None
    """Temperature in degrees, power in watts, utilisation in percent and memory used in MiB, each
    of all GPUs, as little-endian float32. NaN is a reading to drop. None: no readings at all."""


class HeartbeatSink(Protocol):
    """A table of readings, written for many nodes at once."""

    def take(self, nodes: Sequence[NodeId], hosts: Floats, readings: Floats) -> None:
        """Write the newest readings of `nodes`, which all have equally many GPUs.

        `hosts` holds CPU and memory use (node, 2), in percent. `readings` holds (node, 4, GPU):
        temperature in degrees, power in watts, utilisation in percent, memory used in bytes.
        NaN leaves the value before. For a node that occurs twice the later row counts; unknown
        nodes are ignored.
        """
        ...


class HeartbeatDesk:
    """Receives the heartbeats of every server, in every encoding.

    Liveness and commands are urgent, so each heartbeat reaches the agent API at once. Readings
    stay bytes until the next tick writes the latest of each node in one operation.
    """

    def __init__(
        self, agents: AgentApi, sink: HeartbeatSink, metrics: Metrics | None = None
    ) -> None:
        self._agents = agents
        self._heartbeat = agents.heartbeat
        self._sink = sink
        self._latest: dict[NodeId, Heartbeat] = {}
        self.received = 0
        self._delays = (metrics or NoMetrics()).histogram(
            "navarch_event_loop_delay_seconds",
            "How late a timer of the event loop fires: heartbeats and calls wait as long.",
            buckets=DELAY_BUCKETS_S,
        )

    def receive(self, heartbeat: Heartbeat) -> Sequence[Command]:
        """Process one heartbeat; return the commands that its node has not received.

        The sender is the caller, which may be limited to some nodes. Raises InvalidError for a
        heartbeat that no node sends, PermissionDeniedError for a node that the caller may not
        report, and NotFoundError for a node that never registered.
        """
        node, readings = heartbeat.node, heartbeat.readings
        if readings is not None:
            GPUS_PER_HEARTBEAT.check(len(readings) // (READINGS * 4), "$.metrics")
        try:
            commands = self._heartbeat(node)
        except NotFoundError as error:
            node = self._node_of_machine(node, error)
            commands = self._heartbeat(node)
        self.received += 1
        if readings is not None:
            self._latest[node] = heartbeat
            if len(self._latest) >= BATCH_MAX:
                self.flush()
        return commands

    def _node_of_machine(self, name: NodeId, error: NotFoundError) -> NodeId:
        """Return the node of an agent that reports under the name of its machine.

        Raises `error` if there is no such machine either.
        """
        if not name:
            raise InvalidError("node_id is required")
        if "\0" in name:
            raise InvalidError("must not contain a NUL - at `$.node`")
        node = self._agents.resolve(name)
        if node == name:
            raise error
        return node

    def flush(self) -> None:
        """Write every pending reading to the sink."""
        latest, self._latest = self._latest, {}
        alike: dict[int, list[NodeId]] = {}
        for node, heartbeat in latest.items():
            alike.setdefault(len(heartbeat.readings or b""), []).append(node)
        for size, nodes in alike.items():
            beats = [latest[node] for node in nodes]
            content = b"".join([beat.readings or b"" for beat in beats])
            shape = (len(nodes), READINGS, size // (READINGS * 4))
            readings = np.frombuffer(content, "<f4").reshape(shape).copy()
            readings[:, 3] *= _MIB
            hosts = _usable(np.array([beat.host for beat in beats])).astype(np.float32)
            self._sink.take(nodes, hosts, _usable(readings))

    async def run(self, clock: Clock) -> None:
        """Flush at every tick, until cancelled."""
        while True:
            due = clock.monotonic() + TICK_S
            await clock.sleep(TICK_S)
            self._delays.observe(max(clock.monotonic() - due, 0.0))
            self.flush()


def _usable(readings: npt.NDArray[Real]) -> npt.NDArray[Real]:
    """Return `readings` with NaN for what is no usable number, and none below zero."""
    return np.where(np.abs(readings) <= READING_MAX, np.maximum(readings, 0.0), np.nan)


def render_commands(commands: Sequence[Command]) -> bytes:
    """Return the reply that carries `commands`."""
    return HeartbeatResponse(commands=map(command_message, commands)).SerializeToString()


def command_message(command: Command) -> AgentCommand:
    """Return a command as agents receive it."""
    return AgentCommand(
        command_id=command.id,
        kind=command.kind,
        parameters=dict(command.parameters),
        issued_at_unix_ms=round(command.issued_at.timestamp() * 1000),
        expires_at_unix_ms=round(command.expires_at.timestamp() * 1000),
    )
