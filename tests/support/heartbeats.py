"""One heartbeat in every encoding."""

import json
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from google.protobuf import json_format

from navarch.wire.reference import navarch_pb2 as reference
from navarch.wire.v1.agent_pb2 import HeartbeatRequest

MIB = 2**20
JSON = "application/json"
PROTO = "application/proto"
OWN = "/v1/agent/heartbeat"
CONNECT = "/navarch.ControlPlaneService/SendHeartbeat"


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuLoad:
    """The readings of one GPU, in values that every encoding can carry."""

    temperature_c: int = 61
    power_w: int = 500
    utilization_pct: float = 97.5
    memory_used_mib: int = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleBeat:
    """A heartbeat to be encoded."""

    node: str
    gpus: Sequence[GpuLoad] = (GpuLoad(),)
    cpu_pct: float = 12.5
    memory_pct: float = 25.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """One encoding over HTTP."""

    name: str
    path: str
    content_type: str
    encode: Callable[[SampleBeat], bytes]


Send = Callable[[SampleBeat], Awaitable[object]]


def packed(beat: SampleBeat) -> bytes:
    return HeartbeatRequest(
        node_id=beat.node,
        sequence=7,
        cpu_pct=beat.cpu_pct,
        memory_pct=beat.memory_pct,
        temperature_c=[gpu.temperature_c for gpu in beat.gpus],
        power_w=[gpu.power_w for gpu in beat.gpus],
        utilization_pct=[gpu.utilization_pct for gpu in beat.gpus],
        memory_used_mib=[gpu.memory_used_mib for gpu in beat.gpus],
    ).SerializeToString()


def own_json(beat: SampleBeat) -> bytes:
    gpus = [
        {
            "temperature_c": gpu.temperature_c,
            "power_w": gpu.power_w,
            "utilization_pct": gpu.utilization_pct,
            "memory_used_bytes": gpu.memory_used_mib * MIB,
        }
        for gpu in beat.gpus
    ]
    metrics = {"cpu_pct": beat.cpu_pct, "memory_pct": beat.memory_pct, "gpus": gpus}
    return json.dumps({"node": beat.node, "metrics": metrics}).encode()


def connect_message(beat: SampleBeat) -> reference.HeartbeatRequest:
    gpus = [
        reference.GPUMetrics(
            gpu_index=index,
            temperature=gpu.temperature_c,
            power_usage=gpu.power_w,
            utilization_percent=gpu.utilization_pct,
            memory_used=gpu.memory_used_mib * MIB,
        )
        for index, gpu in enumerate(beat.gpus)
    ]
    # In another order than that of the GPUs, which agents are free to send.
    metrics = reference.NodeMetrics(
        cpu_usage_percent=beat.cpu_pct,
        memory_usage_percent=beat.memory_pct,
        gpu_metrics=reversed(gpus),
    )
    message = reference.HeartbeatRequest(node_id=beat.node, metrics=metrics)
    message.timestamp.FromSeconds(1_790_000_000)
    return message


def connect_proto(beat: SampleBeat) -> bytes:
    return connect_message(beat).SerializeToString()


def connect_json(beat: SampleBeat) -> bytes:
    return json.dumps(json_format.MessageToDict(connect_message(beat))).encode()


FORMS = (
    Form(name="packed", path=OWN, content_type=PROTO, encode=packed),
    Form(name="json", path=OWN, content_type=JSON, encode=own_json),
    Form(name="connect-proto", path=CONNECT, content_type=PROTO, encode=connect_proto),
    Form(name="connect-json", path=CONNECT, content_type=JSON, encode=connect_json),
)
