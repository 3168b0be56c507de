"""The messages between the agent and the child process that calls the driver."""

import struct
from dataclasses import dataclass, field
from enum import StrEnum

import msgspec

from navarch.core.instance import Gpu, GpuMetrics
from navarch.ports.gpu import GpuEvent, GpuHealth

LENGTH = struct.Struct("<I")
"""Every message is preceded by its length."""


class Query(StrEnum):
    """The readings that can be requested."""

    GPUS = "gpus"
    METRICS = "metrics"
    HEALTH = "health"
    EVENTS = "events"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadFailure:
    """Why a GPU, or all of them, could not be read."""

    text: str
    lost: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """The readings of all GPUs, by UUID."""

    failure: ReadFailure | None = None
    gpus: tuple[Gpu, ...] = ()
    metrics: dict[str, GpuMetrics] = field(default_factory=dict)
    health: dict[str, GpuHealth] = field(default_factory=dict)
    failures: dict[str, ReadFailure] = field(default_factory=dict)
    """The GPUs that could not be read."""
    events: tuple[GpuEvent, ...] = ()


def frame(body: bytes) -> bytes:
    """Return a message with its length."""
    return LENGTH.pack(len(body)) + body


encode = msgspec.msgpack.Encoder().encode
decode = msgspec.msgpack.Decoder(Reply).decode
