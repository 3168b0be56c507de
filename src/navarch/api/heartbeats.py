"""Packed heartbeats: liveness at once, readings in batches."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import numpy.typing as npt
from google.protobuf.message import DecodeError

from navarch.core.errors import InvalidError
from navarch.core.ids import NodeId
from navarch.core.recovery import Command
from navarch.ports.agents import AgentApi
from navarch.ports.clock import Clock
from navarch.ports.metrics import Metrics, NoMetrics
from navarch.wire.v1.agent_pb2 import AgentCommand, HeartbeatRequest, HeartbeatResponse
from navarch.wire.v1.heartbeat_wire_pb2 import HeartbeatWire

Floats = npt.NDArray[np.float32]

TICK_S = 0.1
"""The longest delay before a reading is written to the table."""
DELAY_BUCKETS_S = (0.001, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0)
BATCH_MAX = 4096
GPUS_MAX = 64
"""More than any machine has; a bound on what one heartbeat may claim."""
READINGS = 4
READING_MAX = np.float32(1e9)
_MIB = np.float32(2**20)


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
    """Receives packed heartbeats from every server.

    Liveness and commands are urgent, so each heartbeat reaches the agent API at once. Readings
    stay bytes until the next tick writes all of them in one operation.
    """

    def __init__(
        self, agents: AgentApi, sink: HeartbeatSink, metrics: Metrics | None = None
    ) -> None:
        self._heartbeat = agents.heartbeat
        self._sink = sink
        self._batches: dict[int, _Batch] = {}
        self.received = 0
        self._delays = (metrics or NoMetrics()).histogram(
            "navarch_event_loop_delay_seconds",
            "How late a timer of the event loop fires: heartbeats and calls wait as long.",
            buckets=DELAY_BUCKETS_S,
        )

    def beat(self, body: bytes) -> bytes:
        """Process one HeartbeatRequest; return the HeartbeatResponse.

        Raises InvalidError for a message that cannot be read, and NotFoundError for a node that
        never registered.
        """
        try:
            message = HeartbeatWire.FromString(body)
        except DecodeError as error:
            raise InvalidError("not a HeartbeatRequest") from error
        temperatures = message.temperature_c
        size = len(temperatures)
        if not size and len(body) > 64:
            # Arrays may also come unpacked, which no generated code does: read them slowly.
            message = _packed(body)
            temperatures = message.temperature_c
            size = len(temperatures)
        power, use, memory = message.power_w, message.utilization_pct, message.memory_used_mib
        is_even = len(power) == len(use) == len(memory) == size
        if not is_even or size % 4 or size > 4 * GPUS_MAX:
            _refuse(message)
        readings = temperatures + power + use + memory
        node = NodeId(message.node_id)
        commands = self._heartbeat(node)
        batch = self._batches.get(size)
        if batch is None:
            batch = self._batches[size] = _Batch()
        batch.nodes.append(node)
        batch.hosts.append((message.cpu_pct, message.memory_pct))
        batch.readings.append(readings)
        self.received += 1
        if len(batch.nodes) >= BATCH_MAX:
            self.flush()
        return render_commands(commands) if commands else b""

    def flush(self) -> None:
        """Write every pending reading to the sink."""
        batches, self._batches = self._batches, {}
        for size, batch in batches.items():
            shape = (len(batch.nodes), READINGS, size // 4)
            readings = np.frombuffer(b"".join(batch.readings), "<f4").reshape(shape)
            readings = _plausible(readings)
            readings[:, 3] *= _MIB
            self._sink.take(batch.nodes, _plausible(np.array(batch.hosts, np.float32)), readings)

    async def run(self, clock: Clock) -> None:
        """Flush at every tick, until cancelled."""
        while True:
            due = clock.monotonic() + TICK_S
            await clock.sleep(TICK_S)
            self._delays.observe(max(clock.monotonic() - due, 0.0))
            self.flush()


@dataclass(slots=True)
class _Batch:
    nodes: list[NodeId] = field(default_factory=list)
    hosts: list[tuple[float, float]] = field(default_factory=list)
    readings: list[bytes] = field(default_factory=list)


def _plausible(readings: Floats) -> Floats:
    """Return a copy with infinity as NaN, and other values within bounds."""
    return np.clip(np.where(np.isinf(readings), np.nan, readings), 0.0, READING_MAX)


def _packed(body: bytes) -> HeartbeatWire:
    """Return the message with its arrays packed."""
    try:
        message = HeartbeatRequest.FromString(body)
    except DecodeError as error:
        raise InvalidError("not a HeartbeatRequest") from error
    return HeartbeatWire(
        node_id=message.node_id,
        sequence=message.sequence,
        cpu_pct=message.cpu_pct,
        memory_pct=message.memory_pct,
        temperature_c=np.array(message.temperature_c, "<f4").tobytes(),
        power_w=np.array(message.power_w, "<f4").tobytes(),
        utilization_pct=np.array(message.utilization_pct, "<f4").tobytes(),
        memory_used_mib=np.array(message.memory_used_mib, "<f4").tobytes(),
    )


def _refuse(message: HeartbeatWire) -> None:
    lengths = {
        "temperature_c": len(message.temperature_c),
        "power_w": len(message.power_w),
        "utilization_pct": len(message.utilization_pct),
        "memory_used_mib": len(message.memory_used_mib),
    }
    counts = ", ".join(f"{name} has {length / 4:g}" for name, length in lengths.items())
    raise InvalidError(f"one value per GPU, at most {GPUS_MAX}: {counts} - at `$.temperature_c`")


def render_commands(commands: Sequence[Command]) -> bytes:
    """Return the reply that carries `commands`."""
    return HeartbeatResponse(
        commands=[
            AgentCommand(
                command_id=command.id,
                kind=command.kind,
                parameters=dict(command.parameters),
                issued_at_unix_ms=round(command.issued_at.timestamp() * 1000),
                expires_at_unix_ms=round(command.expires_at.timestamp() * 1000),
            )
            for command in commands
        ]
    ).SerializeToString()
