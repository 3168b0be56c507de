"""What goes through the pipe between the agent and the process that talks to the driver."""

import struct
from dataclasses import dataclass, field
from enum import StrEnum

import msgspec

from navarch.core.inventory import Gpu
from navarch.core.metrics import GpuMetrics
from navarch.ports.gpu import GpuEvent, GpuHealth

LENGTH = struct.Struct("<I")
"""Every message has its length before it."""


class Query(StrEnum):
    """What can be asked."""

    GPUS = "gpus"
    METRICS = "metrics"
    HEALTH = "health"
    EVENTS = "events"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadFailure:
    """Why there is no reply about a GPU, or about any."""

    text: str
    lost: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What the driver said: of every GPU at once, by uuid, where each was asked."""

    failure: ReadFailure | None = None
    gpus: tuple[Gpu, ...] = ()
    metrics: dict[str, GpuMetrics] = field(default_factory=dict)
    health: dict[str, GpuHealth] = field(default_factory=dict)
    failures: dict[str, ReadFailure] = field(default_factory=dict)
    """Of the GPUs that could not be read."""
    events: tuple[GpuEvent, ...] = ()


def frame(body: bytes) -> bytes:
    """Return a message as it is written."""
    return LENGTH.pack(len(body)) + body


encode = msgspec.msgpack.Encoder().encode
decode = msgspec.msgpack.Decoder(Reply).decode
