"""The control plane's side of the heartbeat's messages, by Google's library."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from navarch.core.ids import NodeId
from navarch.core.instance import GpuMetrics, NodeMetrics
from navarch.core.recovery import Command
from navarch.wire.v1.agent_pb2 import HeartbeatRequest, HeartbeatResponse

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MIB = 1024.0 * 1024.0


def parse_heartbeat(raw: bytes) -> tuple[NodeId, int, NodeMetrics]:
    """Return the node, sequence number and metrics of a heartbeat."""
    beat = HeartbeatRequest.FromString(raw)
    columns = (beat.temperature_c, beat.power_w, beat.utilization_pct, beat.memory_used_mib)
    gpus = tuple(
        GpuMetrics(temperature_c=t, power_w=p, utilization_pct=u, memory_used_bytes=m * MIB)
        for t, p, u, m in zip(*columns, strict=True)
    )
    metrics = NodeMetrics(cpu_pct=beat.cpu_pct, memory_pct=beat.memory_pct, gpus=gpus)
    return NodeId(beat.node_id), beat.sequence, metrics


def heartbeat_reply_bytes(commands: Sequence[Command]) -> bytes:
    """Return an encoded HeartbeatResponse."""
    reply = HeartbeatResponse()
    for command in commands:
        reply.commands.add(
            command_id=command.id,
            kind=command.kind,
            parameters=command.parameters,
            issued_at_unix_ms=(command.issued_at - EPOCH) // timedelta(milliseconds=1),
            expires_at_unix_ms=(command.expires_at - EPOCH) // timedelta(milliseconds=1),
        )
    return reply.SerializeToString()
