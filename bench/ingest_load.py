"""Requests for `bench.ingest`: heartbeats of 8 GPUs in every encoding, as bytes."""

import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random

import msgspec
from google.protobuf import json_format

from navarch.wire.reference import navarch_pb2 as reference
from navarch.wire.v1.agent_pb2 import HeartbeatBatchRequest, HeartbeatRequest

TOKEN = "bench-token-of-more-than-32-characters"
GPUS = 8
CONNECT_PATH = "/navarch.ControlPlaneService/SendHeartbeat"
GRPC_PATH = "/navarch.v1.AgentService/Heartbeat"
OWN_PATH = "/v1/agent/heartbeat"


@dataclass(frozen=True, slots=True, kw_only=True)
class Encoding:
    """How heartbeats are sent."""

    path: str
    content_type: str
    body: Callable[[list[str], Random], bytes]
    """Returns one request of these nodes."""
    nodes: int = 1
    """The heartbeats in one request."""
    protocol: str = "http"


def node_name(number: int) -> str:
    """Return the name of a node."""
    return f"node-{number:06d}"


def write_requests(file: Path, encoding: Encoding, nodes: int) -> None:
    """Write one heartbeat of each node, in the format of the generator."""
    file.write_bytes(
        b"".join(struct.pack("<I", len(request)) + request for request in _all(encoding, nodes))
    )


def http_request(encoding: Encoding, body: bytes) -> bytes:
    """Return a whole HTTP request."""
    head = (
        f"POST {encoding.path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\n"
        f"Content-Type: {encoding.content_type}\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


def _all(encoding: Encoding, nodes: int) -> Iterator[bytes]:
    chance = Random(1)
    for first in range(0, nodes, encoding.nodes):
        names = [node_name(number) for number in range(first, first + encoding.nodes)]
        body = encoding.body(names, chance)
        yield http_request(encoding, body) if encoding.protocol == "http" else body


def _packed_message(node: str, chance: Random) -> HeartbeatRequest:
    return HeartbeatRequest(
        node_id=node,
        sequence=chance.randrange(1, 10_000),
        cpu_pct=chance.uniform(0, 100),
        memory_pct=chance.uniform(0, 100),
        temperature_c=[chance.uniform(30, 85) for _ in range(GPUS)],
        power_w=[chance.uniform(90, 700) for _ in range(GPUS)],
        utilization_pct=[chance.uniform(0, 100) for _ in range(GPUS)],
        memory_used_mib=[chance.uniform(0, 81_920) for _ in range(GPUS)],
    )


def _connect_message(node: str, chance: Random) -> reference.HeartbeatRequest:
    message = reference.HeartbeatRequest(
        node_id=node,
        metrics=reference.NodeMetrics(
            cpu_usage_percent=chance.uniform(0, 100),
            memory_usage_percent=chance.uniform(0, 100),
            gpu_metrics=[
                reference.GPUMetrics(
                    gpu_index=index,
                    temperature=chance.randrange(30, 85),
                    power_usage=chance.randrange(90, 700),
                    utilization_percent=chance.uniform(0, 100),
                    memory_used=chance.randrange(0, 81_920 * 2**20),
                )
                for index in range(GPUS)
            ],
        ),
    )
    message.timestamp.FromSeconds(1_790_000_000)
    return message


def _packed(nodes: list[str], chance: Random) -> bytes:
    return _packed_message(nodes[0], chance).SerializeToString()


def _json(nodes: list[str], chance: Random) -> bytes:
    packed = _packed_message(nodes[0], chance)
    gpus = zip(
        packed.temperature_c,
        packed.power_w,
        packed.utilization_pct,
        packed.memory_used_mib,
        strict=True,
    )
    names = ("temperature_c", "power_w", "utilization_pct", "memory_used_bytes")
    metrics = {
        "cpu_pct": packed.cpu_pct,
        "memory_pct": packed.memory_pct,
        "gpus": [dict(zip(names, (t, p, u, m * 2**20), strict=True)) for t, p, u, m in gpus],
    }
    return msgspec.json.encode({"node": nodes[0], "metrics": metrics})


def _connect_proto(nodes: list[str], chance: Random) -> bytes:
    return _connect_message(nodes[0], chance).SerializeToString()


def _connect_json(nodes: list[str], chance: Random) -> bytes:
    message = _connect_message(nodes[0], chance)
    return msgspec.json.encode(json_format.MessageToDict(message))


def _batch(nodes: list[str], chance: Random) -> bytes:
    beats = [_packed_message(node, chance) for node in nodes]
    return HeartbeatBatchRequest(heartbeats=beats).SerializeToString()


ENCODINGS = {
    "connect_proto": Encoding(
        path=CONNECT_PATH, content_type="application/proto", body=_connect_proto
    ),
    "connect_json": Encoding(
        path=CONNECT_PATH, content_type="application/json", body=_connect_json
    ),
    "packed": Encoding(path=OWN_PATH, content_type="application/proto", body=_packed),
    "json": Encoding(path=OWN_PATH, content_type="application/json", body=_json),
    "batch": Encoding(
        path="/v1/agent/heartbeats",
        content_type="application/proto",
        body=_batch,
        nodes=100,
    ),
    "grpc": Encoding(path=GRPC_PATH, content_type="", body=_packed, protocol="grpc"),
}
