"""Hostile requests: valid ones, damaged, from a seed."""

import base64
import gzip
import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

from google.protobuf import json_format
from google.protobuf.message import Message

from navarch.wire.fleet import FLEET_CALLS
from navarch.wire.reference import navarch_pb2 as reference
from navarch.wire.v1 import agent_pb2

JSON = "application/json"
PROTO = "application/proto"
GZIPPED = gzip.compress(b"{}", mtime=0)

BODIES: dict[str, Any] = {
    "reason": {"reason": "because"},
    "size": {"nodes": 2, "reason": "more"},
    "capacity": {"name": "demo", "gpus": 16, "gpu_type": "h100"},
    "order": {"kind": "run_diagnostic", "parameters": {"level": "1"}},
    "injection": {"node": "a", "result": {"check": "xid", "health": "unhealthy"}},
    "pool": {
        "name": "training",
        "offerings": [{"provider": "sim", "instance_type": "h100-8x", "price_per_hour": "1.5"}],
        "nodes_min": 1,
        "nodes_max": 4,
        "boot_deadline": "PT600S",
        "labels": {"team": "ml"},
    },
    "registration": {
        "node": "a",
        "boot_id": "1",
        "inventory": {"gpus": [{"index": 0, "uuid": "GPU-0"}], "hostname": "a"},
    },
    "beat": {"node": "a", "metrics": {"cpu_pct": 1.0, "gpus": [{"temperature_c": 50.0}]}},
    "findings": {
        "node": "a",
        "report": {"results": [{"check": "gpu", "health": "healthy"}], "stream": "s", "number": 1},
    },
    "late": {
        "node": "a",
        "samples": [{"at": "2026-01-01T00:00:00Z", "metrics": {"gpus": [{"power_w": 1.0}]}}],
    },
    "arrival": {"node": "a", "command": "c"},
    "outcome": {"node": "a", "command": "c", "succeeded": True},
    "boot": {"node": "a", "phase": "command-ended", "command": 2, "exit_code": 7, "detail": "x"},
    "evidence": {
        "note": {
            "id": "e",
            "node": "a",
            "taken_at": "2026-01-01T00:00:00Z",
            "why": "XID 79",
            "sha256": hashlib.sha256(GZIPPED).hexdigest(),
            "size_bytes": len(GZIPPED),
        },
        "content": base64.b64encode(GZIPPED).decode(),
    },
}

CALLS = [
    ("POST", "/v1/nodes/a:cordon", "reason"),
    ("POST", "/v1/nodes/a:drain", "reason"),
    ("POST", "/v1/nodes/a:retire", "reason"),
    ("POST", "/v1/nodes/a:declare-healthy", "reason"),
    ("POST", "/v1/nodes/a/commands", "order"),
    ("PUT", "/v1/pools/training?reason=x", "pool"),
    ("DELETE", "/v1/pools/training", None),
    ("POST", "/v1/pools/training:scale", "size"),
    ("POST", "/v1/up", "capacity"),
    ("POST", "/v1/sim/inject", "injection"),
    ("POST", "/v1/agent/register", "registration"),
    ("POST", "/v1/agent/heartbeat", "beat"),
    ("POST", "/v1/agent/health", "findings"),
    ("POST", "/v1/agent/metrics", "late"),
    ("POST", "/v1/agent/acknowledge", "arrival"),
    ("POST", "/v1/agent/finish", "outcome"),
    ("POST", "/v1/agent/boot", "boot"),
    ("POST", "/v1/agent/evidence", "evidence"),
    ("POST", "/v1/evidence-keys:rotate", "reason"),
    ("GET", "/v1/evidence-keys", None),
    ("GET", "/v1/nodes/a/evidence/e", None),
    ("GET", "/v1/nodes?status=active&page_size=10&label=a=b&order_by=-name", None),
    ("GET", "/v1/instances?state=running&page_token=abc", None),
    ("GET", "/v1/events?after=1&limit=10&about=node/a", None),
    ("GET", "/v1/why/node/a", None),
    ("GET", "/v1/nodes/a", None),
    ("GET", "/v1/pools/training", None),
    ("GET", "/v1/commands/c", None),
    ("GET", "/openapi.json", None),
]

REFERENCE: dict[str, Message] = {
    "RegisterNode": json_format.ParseDict(
        {"nodeId": "a", "gpus": [{"index": 1, "uuid": "x"}], "metadata": {"labels": {"a": "b"}}},
        reference.RegisterNodeRequest(),
    ),
    "ReportHealth": json_format.ParseDict(
        {
            "nodeId": "a",
            "results": [{"checkName": "gpu", "status": "HEALTH_STATUS_HEALTHY"}],
            "events": [{"eventType": "HEALTH_EVENT_TYPE_XID", "metrics": {"xid_code": "79"}}],
        },
        reference.ReportHealthRequest(),
    ),
    "SendHeartbeat": json_format.ParseDict(
        {"nodeId": "a", "timestamp": "2026-01-01T00:00:00Z", "metrics": {"gpuMetrics": [{}]}},
        reference.HeartbeatRequest(),
    ),
    "GetNodeCommands": reference.GetNodeCommandsRequest(node_id="a"),
    "ListNodes": reference.ListNodesRequest(provider="gcp"),
    "GetNode": reference.GetNodeRequest(node_id="a"),
    "IssueCommand": json_format.ParseDict(
        {"nodeId": "a", "commandType": "NODE_COMMAND_TYPE_CORDON", "parameters": {"a": "b"}},
        reference.IssueCommandRequest(),
    ),
    "ListInstances": reference.ListInstancesRequest(pool_name="training"),
    "GetInstance": reference.GetInstanceRequest(instance_id="i"),
}

HEARTBEAT = agent_pb2.HeartbeatRequest(
    node_id="a",
    sequence=1,
    temperature_c=[50.0] * 8,
    power_w=[500.0] * 8,
    utilization_pct=[90.0] * 8,
    memory_used_mib=[1000.0] * 8,
).SerializeToString()

SPICE = (
    b"\x00", b"\xff" * 8, b"\r\n", b"\r\n\r\n", b"%00", b"%", b"../", b"{", b"[", b'"', b"\\ud800",
    b"9" * 40, b"-1", b"1e999", b"NaN", b"null", b"\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01",
    b"Content-Length: -5\r\n", b"Transfer-Encoding: chunked\r\n", b"HTTP/9.9", b"\xf0\x9f\x92\xa9",
)  # fmt: skip

VALUES: tuple[Any, ...] = (
    None, True, -1, 0, 2**31, 2**63, 10**40, -(10**40), 1.5, 1e308, "", "x" * 5000, "\x00", "a/b",
    "Ω≈ç", [], {}, [[[[]]]], {"a": {"b": {"c": 1}}}, "2026-13-45T99:99:99Z", "PT-1S",
    "P99999999999D", "NaN", "Infinity", "1E+999999", ["x"] * 100, "' OR 1=1 --", "../../etc/passwd",
    "\u202e",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Hostile:
    """One request."""

    method: str
    path: str
    body: bytes
    content_type: str
    token: str


class Generator:
    """Makes hostile requests from a seed."""

    def __init__(self, seed: int, token: str) -> None:
        self.chance = Random(seed)
        self._token = token
        self._makers: list[Callable[[], tuple[str, str, bytes, str]]] = [
            self._json,
            self._json,
            self._json,
            self._connect_json,
            self._connect_proto,
            self._heartbeat,
            self._nonsense,
        ]

    def request(self) -> Hostile:
        """Return a request for the HTTP door."""
        method, path, body, kind = self.chance.choice(self._makers)()
        token = self._token if self.chance.random() < 0.9 else self._token[:-1]
        if self.chance.random() < 0.05:
            kind = self.chance.choice(["", "text/plain", "application/grpc", "\x7f", JSON + ";;"])
        return Hostile(method=method, path=path, body=body, content_type=kind, token=token)

    def raw(self) -> bytes:
        """Return the bytes of a request, damaged."""
        hostile = self.request()
        head = (
            f"{hostile.method} {hostile.path} HTTP/1.1\r\nHost: localhost\r\n"
            f"Authorization: Bearer {hostile.token}\r\nContent-Type: {hostile.content_type}\r\n"
            f"Content-Length: {len(hostile.body)}\r\n\r\n"
        )
        return self.damaged(head.encode("utf-8", "surrogateescape") + hostile.body)

    def grpc(self) -> tuple[str, bytes]:
        """Return a call of the gRPC door."""
        if self.chance.random() < 0.6:
            call = self.chance.choice(list(FLEET_CALLS.values()))
            if call.streams:
                return call.path, self.damaged(b"\x08\xff\xff\xff\xff\xff\xff\xff\xff\x7f")
            message = call.request()
            for field in message.DESCRIPTOR.fields:
                if field.type == field.TYPE_STRING:
                    setattr(message, field.name, self.chance.choice(["", "a", "x" * 300, "node/a"]))
            return call.path, self.damaged(message.SerializeToString() or b"\x0a\x01a")
        name = self.chance.choice(
            ["Register", "Heartbeat", "ReportHealth", "ReportMetrics", "Acknowledge", "Finish"]
        )
        return f"/navarch.v1.AgentService/{name}", self.damaged(HEARTBEAT)

    def damaged(self, data: bytes) -> bytes:
        """Return `data` with a few things done to it."""
        for _ in range(self.chance.randint(1, 4)):
            at = self.chance.randint(0, len(data))
            to = min(len(data), at + self.chance.randint(0, 16))
            data = self.chance.choice(
                [
                    data[:at] + data[to:],
                    data[:at] + self.chance.choice(SPICE) + data[at:],
                    data[:at] + self.chance.randbytes(to - at) + data[to:],
                    data[:to] + data[at:],
                    data[:at],
                ]
            )
        return data

    def _json(self) -> tuple[str, str, bytes, str]:
        method, path, name = self.chance.choice(CALLS)
        if name is None or self.chance.random() < 0.3:
            path = "/" + self._path(path[1:])
        body = b"" if name is None else self._document(BODIES[name])
        return method, path, body, JSON

    def _connect_json(self) -> tuple[str, str, bytes, str]:
        name, message = self.chance.choice(list(REFERENCE.items()))
        body = self._document(json_format.MessageToDict(message))
        return "POST", f"/navarch.ControlPlaneService/{name}", body, JSON

    def _connect_proto(self) -> tuple[str, str, bytes, str]:
        name, message = self.chance.choice(list(REFERENCE.items()))
        body = self.damaged(message.SerializeToString())
        return "POST", f"/navarch.ControlPlaneService/{name}", body, PROTO

    def _heartbeat(self) -> tuple[str, str, bytes, str]:
        return "POST", "/v1/agent/heartbeat", self.damaged(HEARTBEAT), PROTO

    def _nonsense(self) -> tuple[str, str, bytes, str]:
        method = self.chance.choice(["GET", "POST", "BREW", "OPTIONS", "TRACE", "HEAD", "get"])
        return method, "/" + self._path("v1/nodes/a:cordon"), self.chance.randbytes(30), JSON

    def _path(self, path: str) -> str:
        text = self.damaged(path.encode()).decode("latin-1")
        # What a parser would not let through as a path does not reach us as one.
        return "".join(c for c in text if "!" <= c <= "~" and c != "#")

    def _document(self, value: Any) -> bytes:  # noqa: ANN401
        """Return JSON with something wrong in its values or in its bytes."""
        if self.chance.random() < 0.3:
            return self.damaged(json.dumps(value).encode())
        damaged = self._changed(value)
        return json.dumps(damaged).encode("utf-8", "surrogatepass")

    def _changed(self, value: Any) -> Any:  # noqa: ANN401
        if isinstance(value, dict) and value and self.chance.random() < 0.9:
            key = self.chance.choice(list(value))
            if self.chance.random() < 0.15:
                return {name: item for name, item in value.items() if name != key}
            return {**value, key: self._changed(value[key])}
        if isinstance(value, list) and value and self.chance.random() < 0.8:
            return [self._changed(value[0]), *value[1:]]
        return self.chance.choice(VALUES)
